// Settings of the queues of a claim's lanes inside one transaction: read once, counted in memory, tokens written back by `save`.
// A queue without a row has no settings and allows every start. The rules are in core/rules/claims/queue-budget.ts.

import { queueOfLane } from "../../../core/routing/lanes.ts"
import { queueLimitKey } from "../../../core/routing/limit-keys.ts"
import { iso } from "../../../core/model/ports.ts"
import {
  availableStarts,
  nextStartMs,
  openBucket,
  type QueueBudget,
  type TokenBucket,
} from "../../../core/rules/claims/queue-budget.ts"
import { freeSlots } from "../../../core/rules/claims/slots.ts"
import { soonest } from "../../../core/time/soonest.ts"
import type { Database } from "../connection/database.ts"
import type { LimitUsage } from "./limits.ts"

interface Queue extends QueueBudget {
  name: string
  /** Id of the limit on attempts in flight, or null. */
  limit: number | null
}

const READ = `
SELECT q.paused, q.rate_limit, q.rate_period_ms, q.tokens, q.refilled_at, l.id
FROM queues q LEFT JOIN limits l ON q.concurrency IS NOT NULL AND l.key = ?2 WHERE q.name = ?1`

type Columns = [number, number | null, number | null, number, string | null, number | null]

const WRITE = "UPDATE queues SET tokens = ?, refilled_at = ? WHERE name = ?"

export class QueueBudgets {
  readonly #db: Database
  readonly #limits: LimitUsage
  readonly #now: number
  readonly #byName = new Map<string, Queue | null>()
  /** Second key of the same queues: a claim asks by lane for every row. */
  readonly #byLane = new Map<string, Queue | null>()
  readonly #spent = new Map<string, TokenBucket>()
  #waitMs: number | null = null

  constructor(db: Database, limits: LimitUsage, now: number) {
    this.#db = db
    this.#limits = limits
    this.#now = now
  }

  /** Returns how many rows of this lane may start now; infinite without settings. */
  available(lane: string): number {
    const queue = this.#ofLane(lane)
    if (queue === null) return Number.POSITIVE_INFINITY
    const slots = queue.limit === null ? Number.POSITIVE_INFINITY : freeSlots(this.#limits.state(queue.limit))
    return availableStarts(queue, slots)
  }

  /** Counts a claimed row of this lane. */
  use(lane: string): void {
    const queue = this.#ofLane(lane)
    if (queue === null) return
    if (queue.limit !== null) this.#limits.use(queue.limit, 1)
    if (queue.bucket === null) return
    queue.bucket.tokens -= 1
    this.#spent.set(queue.name, queue.bucket)
  }

  /** Returns the limit of which an attempt in this lane uses a slot, or null. */
  limitOf(lane: string): number | null {
    return this.#ofLane(lane)?.limit ?? null
  }

  /** Notes that ready rows of this lane were left unclaimed, for `waitMs`. */
  noteUnclaimed(lane: string): void {
    const queue = this.#ofLane(lane)
    if (queue !== null) this.#waitMs = soonest(this.#waitMs, nextStartMs(queue))
  }

  /** Milliseconds until a queue with unclaimed rows has a token again, or null. */
  get waitMs(): number | null {
    return this.#waitMs
  }

  save(): void {
    for (const [name, { tokens }] of this.#spent) this.#db.run(WRITE, tokens, iso(this.#now), name)
    this.#spent.clear()
  }

  #ofLane(lane: string): Queue | null {
    let queue = this.#byLane.get(lane)
    if (queue === undefined) this.#byLane.set(lane, (queue = this.#named(queueOfLane(lane))))
    return queue
  }

  #named(name: string | null): Queue | null {
    if (name === null) return null
    let queue = this.#byName.get(name)
    if (queue === undefined) this.#byName.set(name, (queue = this.#read(name)))
    return queue
  }

  #read(name: string): Queue | null {
    const found = this.#db.get<Columns>(READ, name, queueLimitKey(name))
    if (found === undefined) return null
    const [paused, rateLimit, periodMs, tokens, refilledAt, limit] = found
    const passedMs = refilledAt === null ? 0 : this.#now - Date.parse(refilledAt)
    const bucket = openBucket({ limit: rateLimit, periodMs }, tokens, passedMs)
    return { name, paused: paused === 1, limit, bucket }
  }
}
