// Adds jobs to some worlds: with dependencies, keys, limits by key, groups, priorities and delays. Uses a random stream of its own,
// which leaves the rest of the seed as it is.

import type { JobRetryPolicy } from "../../../src/core/rules/jobs/jobs.ts"
import { JOB_DEFAULTS, type NewJob } from "../../../src/store/contract/jobs.ts"
import { Rng } from "../rng.ts"

/** A request that creates jobs. A user repeats it until it is acknowledged. */
export interface JobRequest {
  at: number
  jobs: NewJob[]
}

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
    return { at: rng.int(0, span), jobs }
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
  task: null,
  concurrencyKey: rng.chance(0.4) ? rng.pick(["a", "b"]) : null,
  concurrencyLimit: 1,
  key: rng.chance(0.3) ? rng.pick(["k", "l", "m"]) : null,
  delayMs: rng.chance(0.2) ? rng.int(1, 10_000) : null,
  group: rng.chance(0.5) ? rng.pick(["g", "h"]) : null,
})

const makePolicy = (rng: Rng): JobRetryPolicy => ({
  max_attempts: rng.int(1, 4),
  backoff_strategy: rng.pick(["FIXED", "LINEAR", "EXPONENTIAL"]),
  base_delay_seconds: rng.int(1, 3),
  max_delay_seconds: 10,
})

const uuid = (hex: string): string =>
  [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20)].join("-")
