// Adds jobs to some worlds: with dependencies, keys, limits, groups, priorities, delays, expiry and timeouts, and users that change,
// cancel, retry and delete them. Uses random streams of its own, which leaves the rest of the seed as it is.

import type { JobRetryPolicy } from "../../../src/core/rules/jobs/jobs.ts"
import { iso } from "../../../src/core/model/ports.ts"
import type { RetryPolicy } from "../../../src/core/model/workflow.ts"
import { JOB_DEFAULTS, type JobEdit, type NewJob, type OnKeyConflict } from "../../../src/store/contract/jobs.ts"
import { START_MS } from "../clock.ts"
import { Rng } from "../rng.ts"

/** A request that creates jobs. A user repeats it until it is acknowledged. */
export interface JobRequest {
  at: number
  jobs: NewJob[]
  onConflict: OnKeyConflict
}

/** A request of a user about a job that an engine has acknowledged, `at` milliseconds after the start. */
export type JobAction = { at: number; id: string } & (
  | { kind: "cancel" | "retry" | "delete" }
  | { kind: "edit"; change: Pick<JobEdit, "payload" | "priority"> }
)

const SHARE = 0.2
const MAX_REQUESTS = 6
const MAX_JOBS = 4
const LAST_MS = 40_000
export const JOB_QUEUE = "jobs"

export const makeJobs = (seed: number): JobRequest[] => {
  const rng = new Rng("jobs", seed)
  if (!rng.chance(SHARE)) return []
  const span = rng.pick([100, 5000, LAST_MS])
  return Array.from({ length: rng.int(1, MAX_REQUESTS) }, () => {
    const jobs: NewJob[] = []
    for (let i = rng.int(1, MAX_JOBS); i > 0; i--) jobs.push(makeJob(rng, jobs))
    const onConflict = rng.pick(["existing", "existing", "replace", "error"] as const)
    if (onConflict === "replace") useKeysOnce(jobs)
    return { at: rng.int(0, span), jobs, onConflict }
  })
}

const useKeysOnce = (jobs: readonly NewJob[]): void => {
  const used = new Set<string>()
  for (const job of jobs) {
    if (job.key !== null && used.has(job.key)) job.key = null
    if (job.key !== null) used.add(job.key)
  }
}

const MAX_ACTIONS = 8

export const makeJobActions = (seed: number, requests: readonly JobRequest[]): JobAction[] => {
  const rng = new Rng("job actions", seed)
  if (requests.length === 0 || rng.chance(0.3)) return []
  return Array.from({ length: rng.int(1, MAX_ACTIONS) }, () => {
    const request = rng.pick(requests)
    const { id } = rng.pick(request.jobs)
    const at = request.at + rng.int(0, rng.pick([300, 3000, LAST_MS]))
    const kind = rng.pick(["cancel", "retry", "retry", "delete", "edit"] as const)
    if (kind !== "edit") return { at, id, kind }
    return { at, id, kind, change: { payload: { n: rng.int(100, 199) }, priority: rng.int(1, 10) } }
  })
}

const makeJob = (rng: Rng, earlier: readonly NewJob[]): NewJob => ({
  ...JOB_DEFAULTS,
  id: uuid(rng.hex128()),
  name: "work",
  queue: JOB_QUEUE,
  payload: { n: rng.int(0, 99) },
  priority: rng.int(1, 10),
  dependencies: earlier.filter(() => rng.chance(0.4)).map(({ id }) => id),
  retryPolicy: makePolicy(rng),
  retry: rng.chance(0.2) ? makeRetry(rng) : null,
  task: null,
  concurrencyKey: rng.chance(0.4) ? rng.pick(["a", "b"]) : null,
  concurrencyLimit: 1,
  key: rng.chance(0.3) ? rng.pick(["k", "l", "m"]) : null,
  limits: rng.chance(0.2) ? [{ key: rng.pick(["one", "two"]), cap: 1 }] : [],
  delayMs: rng.chance(0.2) ? rng.int(1, 10_000) : null,
  runAt: rng.chance(0.1) ? iso(START_MS + rng.int(0, LAST_MS)) : null,
  timeoutMs: rng.chance(0.2) ? rng.int(100, 3000) : null,
  expiresMs: rng.chance(0.15) ? rng.int(50, 10_000) : null,
  group: rng.chance(0.5) ? rng.pick(["g", "h"]) : null,
})

const makePolicy = (rng: Rng): JobRetryPolicy => ({
  max_attempts: rng.int(1, 4),
  backoff_strategy: rng.pick(["FIXED", "LINEAR", "EXPONENTIAL"]),
  base_delay_seconds: rng.int(1, 3),
  max_delay_seconds: 10,
})

const makeRetry = (rng: Rng): RetryPolicy => ({
  maxAttempts: rng.int(1, 3),
  backoff: rng.pick(["fixed", "linear", "exponential"]),
  baseDelayMs: rng.int(0, 2000),
  maxDelayMs: 5000,
  jitter: false,
})

const uuid = (hex: string): string =>
  [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20)].join("-")
