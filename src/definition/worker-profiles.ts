// Worker profiles judged as the fields of tasks are. Asked once, when the configuration is read.

import { parseValue } from "./parse.ts"
import type { WorkerProfiles } from "../core/settings/worker-profiles.ts"
import { problemText } from "../core/model/problems.ts"

/** What is wrong with them, a line each: a task that has nothing else must have no other problem than what it lacks. */
export const profileProblems = (profiles: WorkerProfiles): string[] =>
  Object.entries(profiles).flatMap(([name, profile]) => {
    const parsed = parseValue({ name: "profiles", tasks: { task: { ...profile, worker: name } } })
    const problems = parsed.ok ? [] : parsed.problems
    return problems.map((problem) => {
      const path = problem.path.replace(/^tasks\.task\.?/, "")
      return problemText({ ...problem, path: `worker_profiles.${name}${path === "" ? "" : `.${path}`}` }, "ork.yaml")
    })
  })
