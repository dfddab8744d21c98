// Budgets of the queues of a claim's lanes within one transaction: read and locked once, counted in memory, written back by `save`. A queue
// without settings allows everything. A queue whose counters another transaction has locked allows nothing, and must be asked again.
// The rules are in core/rules/claims/queue-budget.ts.

import { LIMIT_PREFIX } from "../../../core/routing/limit-keys.ts"
import { RESTRICTED_LANES, wildcardRequirements, wildcardRange, isExactLane, queueOfLane } from "../../../core/routing/lanes.ts"
import { MAX_SERVED } from "../../shared/bounds.ts"
import type { LimitState } from "../../../core/rules/claims/admit.ts"
import { availableStarts, nextStartMs, openBucket, type QueueBudget } from "../../../core/rules/claims/queue-budget.ts"
import { freeSlots } from "../../../core/rules/claims/slots.ts"
import { tryLockLimits } from "./limits.ts"
import { LANES_AFTER, REQUIREMENT_OF, WANTS_RESTRICTED } from "./wanted-lanes.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"

const QUEUE_OF = (lane: string): string => `split_part(substr(${lane}.lane, 3), '|', 1)`

/** Joins the limit of the queue `q`. */
const WITH_LIMIT = `LEFT JOIN limits l ON q.concurrency IS NOT NULL AND l.key = '${LIMIT_PREFIX.queue}' || q.name`

/** Condition: core `refill` of the rate of the queue `q` gives less than one token. */
export const OUT_OF_TOKENS = `(q.rate_limit IS NOT NULL AND q.tokens
     + GREATEST(COALESCE(EXTRACT(epoch FROM ${NOW} - q.refilled_at) * 1000, 0), 0) * q.rate_limit / q.rate_period_ms < 1)`

/** Condition: core `availableStarts` of the queue `q` with the limit `l` is 0. NULL without a limit means that it is not. */
export const ALLOWS_NO_START = `(q.paused OR l.used >= l.cap OR ${OUT_OF_TOKENS})`

/**
 * The first lanes, `ahead` and then `behind`, whose queue allows a start. The settings are looked up lane by lane: a join could lose the
 * order of the lanes, and would read all of them.
 */
const OPEN_LANES = (ahead: string, behind: string, condition: string): string =>
  `SELECT w.lane FROM (SELECT lane FROM ${ahead} UNION ALL SELECT lane FROM ${behind}) w
     WHERE ${condition} AND NOT COALESCE((
       SELECT ${ALLOWS_NO_START} FROM queues q ${WITH_LIMIT} WHERE q.name = ${QUEUE_OF("w")}
     ), false) LIMIT ${MAX_SERVED}`

const ANY_LANE = (condition: string): string => `(SELECT r.lane FROM ready_queue r WHERE ${condition} ORDER BY r.lane LIMIT 1)`

const IN_RANGE = "r.lane > :from::text AND r.lane < :to::text"

/**
 * The named lanes at position 0, then lanes with ready rows whose queue allows a start: those between `from` and `to`, beginning after
 * `start`, and those of restricted work with one of the requirements, beginning after `restrictedStart`; and one lane of each queue
 * that is out of tokens, whose rate tells when to claim again. Null parameters ask for none.
 */
const LANES = statement(
  "queues_lanes",
  `WITH RECURSIVE ${LANES_AFTER("ahead", ":start::text", "q.lane < :to::text")}, ${LANES_AFTER("behind", ":from::text", "q.lane <= :start::text")},
   ${LANES_AFTER("restricted_ahead", ":restrictedStart::text", `${WANTS_RESTRICTED} AND q.lane < '${RESTRICTED_LANES.to}'`)},
   ${LANES_AFTER("restricted_behind", `'${RESTRICTED_LANES.from}'`, `${WANTS_RESTRICTED} AND q.lane <= :restrictedStart::text`)},
   ring AS (${OPEN_LANES("ahead", "behind", "w.lane <> ALL (:lanes::text[])")}),
   restricted AS (${OPEN_LANES("restricted_ahead", "restricted_behind", `${REQUIREMENT_OF("w.lane")} = ANY (:requirements::text[])`)}),
   ready_with_settings AS MATERIALIZED (
     SELECT n.lane, NOT q.paused AND ${OUT_OF_TOKENS} AS out_of_tokens FROM queues q CROSS JOIN LATERAL (
       ${ANY_LANE(`r.lane = 'q:' || q.name AND ${IN_RANGE}`)}
       UNION ALL ${ANY_LANE(`r.lane = 's:' || q.name AND ${IN_RANGE}`)}
       UNION ALL ${ANY_LANE(`r.lane > 'f:' || q.name || '|' AND r.lane < 'f:' || q.name || '}' AND ${WANTS_RESTRICTED}`)}
       LIMIT 1
     ) n
   ), spent AS (
     SELECT lane FROM ready_with_settings WHERE out_of_tokens AND lane <> ALL (:lanes::text[])
   ), wanted AS (
     SELECT lane, 0 AS position FROM unnest(:lanes::text[]) AS l (lane)
     UNION ALL SELECT lane, row_number() OVER () AS position FROM ring
     UNION ALL SELECT lane, ${MAX_SERVED} + row_number() OVER () AS position FROM restricted
     UNION ALL SELECT lane, ${2 * MAX_SERVED} + row_number() OVER () AS position FROM spent
   )
   SELECT w.lane, w.position::int, q.name AS queue, q.paused, q.rate_limit, q.rate_period_ms, l.id AS "limit",
     EXISTS (SELECT 1 FROM ready_with_settings) AS settings
   FROM wanted w LEFT JOIN queues q ON q.name = ${QUEUE_OF("w")} ${WITH_LIMIT} ORDER BY w.position`,
)

export interface Lane {
  lane: string
  /** Its position in the round robin (claim-round-robin.ts); 0: the claim names the lane. Lanes of one position are served together. */
  position: number
  /** Queue with settings; null: the queue of the lane has none. */
  queue: string | null
  paused: boolean | null
  rate_limit: number | null
  rate_period_ms: number | null
  limit: number | null
  /** A queue with settings has ready rows. */
  settings: boolean
}

/** Lanes that were served last: of all, and of restricted work. */
export interface ServedLanes {
  lane: string
  restricted: string
}

/** Reads the lanes that a claim asks for. */
export const readLanes = (tx: Tx, wanted: readonly string[], { lane, restricted }: ServedLanes): Promise<Lane[]> => {
  const { from, to } = wildcardRange(wanted) ?? { from: null, to: null }
  const start = from !== null && lane > from && lane < to ? lane : from
  const restrictedStart = restricted === "" ? RESTRICTED_LANES.from : restricted
  return tx.run(LANES, {
    lanes: wanted.filter(isExactLane),
    from,
    to,
    start,
    requirements: wildcardRequirements(wanted),
    restrictedStart,
  })
}

/** Returns whether further lanes may have ready rows: there are as many of one kind as a claim reads. */
export const mayHaveMoreLanes = (lanes: readonly Lane[]): boolean =>
  lanes.some(({ position }) => position === MAX_SERVED || position === 2 * MAX_SERVED)

const LOCK_TOKENS = statement(
  "queues_lock_tokens",
  `SELECT name, tokens, COALESCE(EXTRACT(epoch FROM ${NOW} - refilled_at) * 1000, 0)::float8 AS passed
   FROM queues WHERE name = ANY (:names::text[]) ORDER BY name FOR UPDATE SKIP LOCKED`,
)

const SAVE_TOKENS = statement(
  "queues_save_tokens",
  `UPDATE queues q SET tokens = c.tokens, refilled_at = ${NOW}
   FROM unnest(:names::text[], :tokens::float8[]) AS c (name, tokens) WHERE q.name = c.name`,
)

const USE_SLOTS = statement(
  "queues_use_slots",
  `UPDATE limits l SET used = l.used + c.slots FROM unnest(:limits::bigint[], :slots::int[]) AS c (id, slots) WHERE l.id = c.id`,
)

interface Queue extends QueueBudget {
  name: string
  /** Limit that counts the running rows; null: none. */
  limit: number | null
  /** Free slots of the limit, infinite without one. */
  slots: number
  /** Number of rows that the transaction claimed. */
  used: number
  /** Another transaction has locked its counters. */
  missed: boolean
}

interface StoredTokens {
  name: string
  tokens: number
  /** Milliseconds since they were stored. */
  passed: number
}

export class QueueBudgets {
  readonly #queues: ReadonlyMap<string, Queue>

  private constructor(queues: ReadonlyMap<string, Queue>) {
    this.#queues = queues
  }

  /** Locks the counters of the queues of these lanes. */
  static async open(tx: Tx, lanes: readonly Lane[]): Promise<QueueBudgets> {
    const queues = [...new Map(lanes.flatMap((lane) => (lane.queue === null ? [] : [[lane.queue, lane]]))).values()]
    const active = queues.filter(({ paused }) => paused !== true)
    const rated = active.flatMap(({ queue, rate_limit }) => (rate_limit === null ? [] : queue!))
    const limited = active.flatMap(({ limit }) => limit ?? [])
    const locking = rated.length === 0 ? [] : tx.run<StoredTokens>(LOCK_TOKENS, { names: rated })
    const limits = limited.length === 0 ? new Map<number, LimitState>() : await tryLockLimits(tx, limited)
    const tokens = new Map((await locking).map((row) => [row.name, row]))
    const opened = queues.map((lane) => {
      const limit = lane.limit === null ? undefined : limits.get(lane.limit)
      return openQueue(lane, tokens.get(lane.queue!), limit)
    })
    return new QueueBudgets(new Map(opened.map((queue) => [queue.name, queue])))
  }

  /** Whether some queue has settings. */
  get any(): boolean {
    return this.#queues.size > 0
  }

  /** Whether some queue must be asked again. */
  get missed(): boolean {
    return [...this.#queues.values()].some((queue) => queue.missed)
  }

  /** Returns the number of rows of this lane that may start now. Lanes of one queue share its budget. */
  available({ queue: name }: Pick<Lane, "queue">): number {
    const queue = name === null ? undefined : this.#queues.get(name)
    if (queue === undefined) return Number.POSITIVE_INFINITY
    return queue.missed ? 0 : availableStarts(queue, queue.slots - queue.used)
  }

  /** Counts a claimed row of this lane. */
  use(lane: string): void {
    const queue = this.#queues.get(queueOfLane(lane) ?? "")
    if (queue === undefined) return
    queue.used += 1
    if (queue.bucket !== null) queue.bucket.tokens -= 1
  }

  /** Returns the milliseconds until the queue of this lane has a token again; null when its rate does not hold it back. */
  waitMs({ queue: name }: Pick<Lane, "queue">): number | null {
    const queue = name === null ? undefined : this.#queues.get(name)
    return queue === undefined ? null : nextStartMs(queue)
  }

  /** Writes back what was used. */
  async save(tx: Tx): Promise<void> {
    const used = [...this.#queues.values()].filter((queue) => queue.used > 0)
    const rated = used.flatMap(({ name, bucket }) => (bucket === null ? [] : { name, tokens: bucket.tokens }))
    const limited = used.filter((queue) => queue.limit !== null)
    const spent =
      rated.length === 0
        ? null
        : tx.run(SAVE_TOKENS, { names: rated.map(({ name }) => name), tokens: rated.map(({ tokens }) => tokens) })
    if (limited.length > 0)
      await tx.run(USE_SLOTS, { limits: limited.map(({ limit }) => limit), slots: limited.map((queue) => queue.used) })
    await spent
  }
}

/**
 * Returns the budget of a queue. `tokens` and `limit` are undefined when the queue has none, when it is paused, or when another
 * transaction has locked them.
 */
const openQueue = (lane: Lane, tokens: StoredTokens | undefined, limit: LimitState | undefined): Queue => {
  const paused = lane.paused === true
  const rate = { limit: lane.rate_limit, periodMs: lane.rate_period_ms }
  const missed = (rate.limit !== null && tokens === undefined) || (lane.limit !== null && limit === undefined)
  return {
    name: lane.queue!,
    paused,
    limit: lane.limit,
    slots: limit === undefined ? Number.POSITIVE_INFINITY : freeSlots(limit),
    used: 0,
    bucket: tokens === undefined ? null : openBucket(rate, tokens.tokens, tokens.passed),
    missed: missed && !paused,
  }
}
