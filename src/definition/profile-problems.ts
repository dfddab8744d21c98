// Checks the fields of worker profiles like fields of tasks. Called once, when the configuration is read.

import { problemText } from "../core/model/problems.ts"
import type { WorkerProfiles } from "../core/settings/worker-profiles.ts"
import { parseValue } from "./parse.ts"

/** Returns one line for each problem, by parsing a task that has only the fields of the profile. */
export const profileProblems = (profiles: WorkerProfiles): string[] =>
  Object.entries(profiles).flatMap(([name, profile]) => {
    const parsed = parseValue({ name: "profiles", tasks: { task: { ...profile, worker: name } } })
    const problems = parsed.ok ? [] : parsed.problems
    return problems.map((problem) => {
      const path = problem.path.replace(/^tasks\.task\.?/, "")
      return problemText({ ...problem, path: `worker_profiles.${name}${path === "" ? "" : `.${path}`}` }, "ork.yaml")
    })
  })
