// What the queues of a claim's lanes allow, inside one transaction: read once, counted in memory, tokens written back by `save`.
// A queue without a row allows everything.

import { queueLimitKey, queueOfLane } from "../../../core/routing/lanes.ts"
import { iso } from "../../../core/model/ports.ts"
import { refill, tokenWaitMs } from "../../shared/rate.ts"
import type { Database } from "../connection/database.ts"
import type { LimitUsage } from "./limits.ts"

interface Queue {
  name: string
  paused: boolean
  /** The limit that counts what runs. */
  limit: number | null
  rate: { limit: number; periodMs: number; tokens: number } | null
}

const READ = `
SELECT q.paused, q.rate_limit, q.rate_period_ms, q.tokens, q.refilled_at, l.id
FROM queues q LEFT JOIN limits l ON q.concurrency IS NOT NULL AND l.key = ?2 WHERE q.name = ?1`

type Columns = [number, number | null, number | null, number, string | null, number | null]

const WRITE = "UPDATE queues SET tokens = ?, refilled_at = ? WHERE name = ?"

export class QueueBudget {
  readonly #db: Database
  readonly #limits: LimitUsage
  readonly #now: number
  /** By name, and by lane: the latter is asked for every row. */
  readonly #queues = new Map<string, Queue | null>()
  readonly #lanes = new Map<string, Queue | null>()
  readonly #spent = new Set<Queue>()
  #waitMs: number | null = null

  constructor(db: Database, limits: LimitUsage, now: number) {
    this.#db = db
    this.#limits = limits
    this.#now = now
  }

  /** How many rows of this lane may start now. */
  room(lane: string): number {
    const queue = this.#of(lane)
    if (queue === null) return Number.POSITIVE_INFINITY
    if (queue.paused) return 0
    let room = Number.POSITIVE_INFINITY
    if (queue.limit !== null) {
      const { cap, used } = this.#limits.state(queue.limit)
      room = Math.max(0, cap - used)
    }
    return queue.rate === null ? room : Math.min(room, Math.floor(queue.rate.tokens))
  }

  /** A row of this lane was taken. */
  take(lane: string): void {
    const queue = this.#of(lane)
    if (queue === null) return
    if (queue.limit !== null) this.#limits.use(queue.limit, 1)
    if (queue.rate === null) return
    queue.rate.tokens -= 1
    this.#spent.add(queue)
  }

  /** The limit whose slot a live row of this lane has. */
  limitOf(lane: string): number | null {
    return this.#of(lane)?.limit ?? null
  }

  /** Ready rows of this lane were left: when the queue's rate held them back, the next turn is due when it has a token again. */
  left(lane: string): void {
    const queue = this.#of(lane)
    if (queue === null || queue.paused || queue.rate === null || queue.rate.tokens >= 1) return
    this.#waitMs = Math.min(this.#waitMs ?? Number.POSITIVE_INFINITY, tokenWaitMs(queue.rate, queue.rate.tokens))
  }

  get waitMs(): number | null {
    return this.#waitMs
  }

  save(): void {
    for (const { name, rate } of this.#spent) this.#db.run(WRITE, rate!.tokens, iso(this.#now), name)
    this.#spent.clear()
  }

  #of(lane: string): Queue | null {
    let queue = this.#lanes.get(lane)
    if (queue === undefined) this.#lanes.set(lane, (queue = this.#named(queueOfLane(lane))))
    return queue
  }

  #named(name: string | null): Queue | null {
    if (name === null) return null
    let queue = this.#queues.get(name)
    if (queue === undefined) {
      const found = this.#db.get<Columns>(READ, name, queueLimitKey(name))
      this.#queues.set(name, (queue = found === undefined ? null : this.#queueOf(name, found)))
    }
    return queue
  }

  #queueOf(name: string, [paused, limit, periodMs, tokens, refilledAt, id]: Columns): Queue {
    const rate = limit === null || periodMs === null ? null : { limit, periodMs }
    const passed = refilledAt === null ? 0 : this.#now - Date.parse(refilledAt)
    const left = rate === null ? null : { ...rate, tokens: refill(rate, tokens, passed) }
    return { name, paused: paused === 1, limit: id, rate: left }
  }
}
