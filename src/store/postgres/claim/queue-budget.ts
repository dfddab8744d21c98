// What the queues of a claim's lanes allow, inside one transaction: read and locked once, counted in memory, written back by
// `save`. A queue without a row allows everything; one whose counters another transaction holds just now allows nothing, and is
// asked for again.

import { FUNCTION_LANES, wildcardFunctions, wildcardRange, isExactLane, queueOfLane } from "../../../core/routing/lanes.ts"
import { MAX_CALL_LANES, MAX_GROUPS } from "../../shared/bounds.ts"
import { type Rate, refill, tokenWaitMs } from "../../shared/rate.ts"
import { anyTextParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { tryLockLimits } from "./limits.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const NEXT = (after: string, bound: string): string =>
  `SELECT q.lane FROM ready_queue q WHERE q.lane > ${after} AND ${bound} ORDER BY q.lane LIMIT 1`

const RING = (name: string, from: string, bound: string): string => `${name} AS (
     (${NEXT(from, bound)}) UNION ALL SELECT n.lane FROM ${name} r CROSS JOIN LATERAL (${NEXT("r.lane", bound)}) n
   )`

/**
 * $1 the lanes that are named; $2 … $3 around those of which every one with ready rows is wanted, $4 where to go on; NULL: none.
 * $5 the functions whose calls are wanted in any lane; NULL: none.
 */
const LANES = statement(
  "queues_lanes",
  `WITH RECURSIVE ${RING("ahead", "$4::text", "q.lane < $3::text")}, ${RING("behind", "$2::text", "q.lane <= $4::text")},
   ${RING("calls", `'${FUNCTION_LANES.from}'`, `$5::text[] IS NOT NULL AND q.lane < '${FUNCTION_LANES.to}'`)},
   ring AS (SELECT lane FROM ahead UNION ALL SELECT lane FROM behind LIMIT ${MAX_GROUPS}),
   wanted AS (
     SELECT lane, 0 AS place FROM unnest($1::text[]) AS l (lane)
     UNION ALL
     SELECT lane, row_number() OVER () AS place FROM ring WHERE lane <> ALL ($1::text[])
     UNION ALL
     SELECT lane, ${MAX_GROUPS} + row_number() OVER () AS place FROM (
       SELECT lane FROM (SELECT lane FROM calls LIMIT ${MAX_CALL_LANES}) c
       WHERE split_part(lane, '|', 2) = ANY ($5::text[]) LIMIT ${MAX_GROUPS}
     ) c
   )
   SELECT w.lane, w.place::int, q.name AS queue, q.paused, q.rate_limit, q.rate_period_ms, l.id AS "limit"
   FROM wanted w LEFT JOIN queues q ON q.name = split_part(substr(w.lane, 3), '|', 1)
   LEFT JOIN limits l ON q.concurrency IS NOT NULL AND l.key = 'q:' || q.name ORDER BY w.place`,
)

export interface Lane {
  lane: string
  /** 0: named. The others in turn. */
  place: number
  /** null: its queue has no settings. */
  queue: string | null
  paused: boolean | null
  rate_limit: number | null
  rate_period_ms: number | null
  limit: number | null
}

/** `after`: the lane that was served last. */
export const readLanes = (tx: SqlRunner, wanted: readonly string[], after: string): Promise<Lane[]> => {
  const { from, to } = wildcardRange(wanted) ?? { from: null, to: null }
  const start = from !== null && after > from && after < to ? after : from
  return tx.run<Lane>(LANES, [
    anyTextParam(wanted.filter(isExactLane)),
    from,
    to,
    start,
    textArrayParam(wildcardFunctions(wanted)),
  ])
}

const LOCK_TOKENS = statement(
  "queues_lock_tokens",
  `SELECT name, tokens, COALESCE(EXTRACT(epoch FROM COALESCE($2::timestamptz, now()) - refilled_at) * 1000, 0)::float8 AS passed
   FROM queues WHERE name = ANY ($1::text[]) ORDER BY name FOR UPDATE SKIP LOCKED`,
)

const SAVE_TOKENS = statement(
  "queues_save_tokens",
  `UPDATE queues q SET tokens = c.tokens, refilled_at = COALESCE($1::timestamptz, now())
   FROM unnest($2::text[], $3::float8[]) AS c (name, tokens) WHERE q.name = c.name`,
)

const USE = statement(
  "queues_use",
  "UPDATE limits l SET used = l.used + c.slots FROM unnest($1::bigint[], $2::int[]) AS c (id, slots) WHERE l.id = c.id",
)

interface Queue {
  name: string
  paused: boolean
  /** The limit that counts what runs; null: none. */
  limit: number | null
  slots: number
  taken: number
  rate: (Rate & { tokens: number }) | null
  /** Its counters could not be locked. */
  missed: boolean
}

export class QueueBudget {
  readonly #queues: ReadonlyMap<string, Queue>

  private constructor(queues: ReadonlyMap<string, Queue>) {
    this.#queues = queues
  }

  static async open(tx: SqlRunner, lanes: readonly Lane[], now: string | null): Promise<QueueBudget> {
    const queued = [...new Map(lanes.flatMap((lane) => (lane.queue === null ? [] : [[lane.queue, lane]]))).values()]
    const rated = queued.filter((lane) => lane.rate_limit !== null && !lane.paused).map(({ queue }) => queue!)
    const limited = queued.flatMap(({ limit, paused }) => (limit === null || paused ? [] : limit))
    const locking =
      rated.length === 0
        ? []
        : tx.run<{ name: string; tokens: number; passed: number }>(LOCK_TOKENS, [anyTextParam(rated), now])
    const limits = limited.length === 0 ? new Map<number, never>() : await tryLockLimits(tx, limited)
    const tokens = new Map((await locking).map((row) => [row.name, row]))
    const queues = queued.map((lane): [string, Queue] => {
      const rate = rateOf(lane)
      const bucket = tokens.get(lane.queue!)
      const state = lane.limit === null ? undefined : limits.get(lane.limit)
      const missed = (rate !== null && bucket === undefined) || (lane.limit !== null && state === undefined)
      return [
        lane.queue!,
        {
          name: lane.queue!,
          paused: lane.paused === true,
          limit: lane.limit,
          slots: state === undefined ? Number.POSITIVE_INFINITY : Math.max(0, state.cap - state.used),
          taken: 0,
          rate: rate === null || bucket === undefined ? null : { ...rate, tokens: refill(rate, bucket.tokens, bucket.passed) },
          missed: missed && lane.paused !== true,
        },
      ]
    })
    return new QueueBudget(new Map(queues))
  }

  /** Some queue has settings. */
  get any(): boolean {
    return this.#queues.size > 0
  }

  /** Some queue must be asked for again. */
  get missed(): boolean {
    return [...this.#queues.values()].some((queue) => queue.missed)
  }

  /** How many rows of this lane may start now; lanes of one queue share it. */
  available({ queue }: Pick<Lane, "queue">): number {
    const found = queue === null ? undefined : this.#queues.get(queue)
    if (found === undefined) return Number.POSITIVE_INFINITY
    if (found.paused || found.missed) return 0
    const room = found.slots - found.taken
    return found.rate === null ? room : Math.min(room, Math.floor(found.rate.tokens))
  }

  /** A row of this lane was taken. */
  use(lane: string): void {
    const queue = this.#queues.get(queueOfLane(lane) ?? "")
    if (queue === undefined) return
    queue.taken += 1
    if (queue.rate !== null) queue.rate.tokens -= 1
  }

  /** Until the queue of this lane has a token again; null when that is not what holds it back. */
  waitMs({ queue }: Pick<Lane, "queue">): number | null {
    const found = queue === null ? undefined : this.#queues.get(queue)
    if (found === undefined || found.paused || found.rate === null || found.rate.tokens >= 1) return null
    return tokenWaitMs(found.rate, found.rate.tokens)
  }

  async save(tx: SqlRunner, now: string | null): Promise<void> {
    const taken = [...this.#queues.values()].filter((queue) => queue.taken > 0)
    const rated = taken.filter((queue) => queue.rate !== null)
    const limited = taken.filter((queue) => queue.limit !== null)
    const spent =
      rated.length === 0
        ? null
        : tx.run(SAVE_TOKENS, [
            now,
            textArrayParam(rated.map(({ name }) => name)),
            arrayParam(rated.map(({ rate }) => rate!.tokens)),
          ])
    if (limited.length > 0)
      await tx.run(USE, [arrayParam(limited.map((q) => q.limit)), arrayParam(limited.map((q) => q.taken))])
    await spent
  }
}

const rateOf = ({ rate_limit: limit, rate_period_ms: periodMs }: Lane): Rate | null =>
  limit === null || periodMs === null ? null : { limit, periodMs }
