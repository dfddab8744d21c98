// `ork run` killed at failpoints: a run that it has reported is continued with `--resume` until it ends.

import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { overlaps } from "../checks.ts"
import { CHAIN } from "../workload.ts"
import { Journal } from "../journal.ts"
import { startWithFailpoints } from "../ork-child.ts"
import type { Outcome, WorldOptions } from "./world.ts"

const LANES = 2
const MAX_RESUMES = 100
/** On Postgres, until the lease of the killed process has expired. */
const BUSY = /is being run by/
const BUSY_MS = 1000

export const killLocalRuns = async (options: Omit<WorldOptions, "servers">): Promise<Outcome> => {
  const { folder, store, points } = options
  const journal = new Journal(join(folder, "journal"))
  const cwd = join(folder, "work")
  mkdirSync(cwd)
  writeFileSync(join(cwd, "chain.json"), JSON.stringify(CHAIN.definition(journal)))
  const outcome: Outcome = { kills: 0, runs: 0, jobs: 0, requests: {}, violations: [] }

  /** Starts the command with a failpoint while kills are wanted; resolves at its end. */
  const attempt = async (args: string[]) => {
    const point = outcome.kills < options.kills ? points.choose("run") : null
    const reported = (found: string): void => points.reported("run", found)
    const child = startWithFailpoints(["run", ...args, "--json"], { cwd, env: store }, { point, reported })
    const { code, signal } = await child.exit
    if (signal === "SIGKILL" && point !== null) {
      outcome.kills++
      points.killed("run", point.split("#")[0]!)
    }
    return { killed: signal === "SIGKILL", code, stdout: child.stdout, stderr: child.stderr }
  }

  /** Returns the id of the run that the lines of `--json` name. */
  const runIn = (stdout: string): string | undefined => /"run_id":"([^"]+)"/.exec(stdout)?.[1]

  const one = async (key: string): Promise<void> => {
    let last = await attempt(["chain.json", "--param", `key=${key}`])
    const run = runIn(last.stdout)
    if (run === undefined) {
      if (!last.killed) outcome.violations.push(`ork run ended with ${last.code} and no run: ${last.stderr.slice(-500)}`)
      return
    }
    outcome.runs++
    for (let resumes = 0; (last.killed || BUSY.test(last.stderr)) && resumes < MAX_RESUMES; resumes++) {
      if (!last.killed) await delay(BUSY_MS)
      last = await attempt(["--resume", run])
    }
    if (last.code !== 0) {
      outcome.violations.push(`run ${run}: its last command ended with ${last.code}: ${last.stderr.slice(-500)}`)
      return
    }
    const ends = new Set(journal.read().flatMap(({ run: of, task, phase }) => (of === run && phase === "end" ? [task] : [])))
    for (const task of CHAIN.tasks.filter((name) => !ends.has(name))) {
      outcome.violations.push(`run ${run} was reported as a success, but its task ${task} never ended`)
    }
  }

  const lane = async (name: number): Promise<void> => {
    for (let n = 0; outcome.kills < options.kills; n++) await one(`run-${name}-${n}`)
  }
  await Promise.all(Array.from({ length: LANES }, (_, name) => lane(name)))
  outcome.violations.push(...overlaps(journal.read()))
  return outcome
}
