// Changes of the settings of queues in some worlds: users pause a queue, or bound its concurrency or rate, and take that back later. Uses
// a random stream of its own, which leaves the rest of the seed as it is.

import type { QueueSettings } from "../../../src/store/contract/queues.ts"
import { Rng } from "../rng.ts"
import { JOB_QUEUE } from "./jobs.ts"

export interface QueueChange {
  at: number
  forMs: number
  queue: string
  settings: Partial<QueueSettings>
}

/** Settings of a queue that nobody has changed. */
export const UNBOUND: QueueSettings = { concurrency: null, rate: null, paused: false }

const SHARE = 0.2
const MAX_CHANGES = 4
const LAST_MS = 40_000

export const makeQueueChanges = (seed: number): QueueChange[] => {
  const rng = new Rng("queues", seed)
  if (!rng.chance(SHARE)) return []
  const span = rng.pick([2000, LAST_MS])
  return Array.from({ length: rng.int(1, MAX_CHANGES) }, () => ({
    at: rng.int(0, span),
    forMs: rng.pick([rng.int(1, 3000), rng.int(1000, 30_000)]),
    queue: rng.pick(["default", JOB_QUEUE]),
    settings: makeSettings(rng),
  }))
}

const makeSettings = (rng: Rng): Partial<QueueSettings> =>
  rng.pick([
    { paused: true },
    { concurrency: rng.int(1, 3) },
    { rate: { limit: rng.int(1, 4), periodMs: rng.pick([500, 3000]) } },
  ])
