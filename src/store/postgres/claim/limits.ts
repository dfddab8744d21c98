// Slots of limits. A transaction locks limits in order of their ids before it gives slots back. A claim uses those that no other
// transaction has locked; core `admit` leaves rows under the others for the next turn. Parked rows wait under the limit that was full.

import type { LimitState } from "../../../core/rules/claims/admit.ts"
import type { Limit } from "../../../core/model/row.ts"
import { isKeyLimit } from "../../../core/routing/limit-keys.ts"
import { claimOrder } from "../../shared/claim-order.ts"
import { type Params, pipelined, type SqlRunner, type Statement, statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { insertInto, READINESS } from "./ready-queue.ts"
import { IS_WANTED, laneParams } from "./wanted-lanes.ts"

const ENSURE = statement(
  "limits_ensure",
  `WITH wanted AS (SELECT * FROM unnest(:keys::text[], :caps::int[]) AS w (key, cap)), added AS (
     INSERT INTO limits (key, cap) SELECT key, cap FROM wanted ORDER BY key ON CONFLICT (key) DO NOTHING RETURNING id, key, cap
   )
   SELECT id, key, cap FROM added
   UNION ALL SELECT l.id, l.key, l.cap FROM wanted w JOIN limits l ON l.key = w.key`,
)

const KEY_LIMITS_LOCK = "hashtextextended('ork limits ' || current_schema(), 0)"

const SHARE_KEY_LIMITS = statement("limits_share", `SELECT pg_advisory_xact_lock_shared(${KEY_LIMITS_LOCK})`)

const TRY_LOCK_KEY_LIMITS = statement("limits_try_exclude", `SELECT pg_try_advisory_xact_lock(${KEY_LIMITS_LOCK}) AS locked`)

/** Keeps other transactions from putting rows under limits of concurrency keys. Returns false while one does. */
export const excludeKeyLimits = async (tx: SqlRunner): Promise<boolean> =>
  (await tx.run<{ locked: boolean }>(TRY_LOCK_KEY_LIMITS))[0]!.locked

/** Core `freeSlots` of the limit `l`. */
export const FREE_SLOTS = "GREATEST(l.cap - l.used, 0)"

const FIRST_PARKED_LANE = (of: string, condition = ""): string =>
  `SELECT p.lane FROM tasks p WHERE p.parked = ${of}.id ${condition} ORDER BY p.parked, p.lane LIMIT 1`

/** Selects the lanes with parked rows of limits, a set of (id, rows). */
const PARKED_LANES = (limits: string): string => `parked_lanes AS (
     SELECT u.id, u.rows, n.lane FROM ${limits} u CROSS JOIN LATERAL (${FIRST_PARKED_LANE("u")}) n WHERE u.rows > 0
     UNION ALL
     SELECT l.id, l.rows, n.lane FROM parked_lanes l CROSS JOIN LATERAL (${FIRST_PARKED_LANE("l", "AND p.lane > l.lane")}) n
   )`

/**
 * Returns the last parts of a statement that begins WITH RECURSIVE: unparks rows of limits, a set of (id, rows), and enqueues those
 * that are ready. Every lane with parked rows gets as many, because nobody may claim from some lanes: a paused queue, a dead `ork run`.
 * A claim that finds no slot for a row parks it again. `missed`: limits of which another transaction has locked a parked row. `first`
 * is materialized because Postgres may run a subquery that locks rows once for every row that it updates, and each time it would find
 * further rows.
 */
export const UNPARK = (limits: string): string => `${PARKED_LANES(limits)}, first AS MATERIALIZED (
     SELECT p.id, l.id AS parked_under FROM parked_lanes l CROSS JOIN LATERAL (
       SELECT p.id FROM tasks p WHERE p.parked = l.id AND p.lane = l.lane ORDER BY ${claimOrder("p")} LIMIT l.rows
       FOR NO KEY UPDATE SKIP LOCKED
     ) p
   ), unparked AS (
     UPDATE tasks t SET parked = NULL FROM first f WHERE t.id = f.id RETURNING ${READINESS("t")}, f.parked_under
   ), enqueued AS (
     ${insertInto("ready_queue", "unparked")}
   )
   SELECT (SELECT count(*) FROM unparked)::int AS unparked, ARRAY(
     SELECT DISTINCT l.id FROM parked_lanes l WHERE (SELECT count(*) FROM unparked u WHERE u.parked_under = l.id AND u.lane = l.lane)
       < (SELECT count(*) FROM (SELECT 1 FROM tasks p WHERE p.parked = l.id AND p.lane = l.lane LIMIT l.rows) f)
   ) AS missed`

/** The reply to a statement that unparks rows. */
interface Unparked {
  unparked: number
  missed: number[]
}

/** Runs a statement that ends in UNPARK, and returns how many rows it unparked. The next turn tries again for `missed` limits. */
export const runUnpark = async ({ run, cache }: Tx, statement: Statement, params: Params): Promise<number> => {
  const [reply] = await run<Unparked>(statement, params)
  for (const limit of reply!.missed) cache.missedLimits.add(limit)
  return reply!.unparked
}

/** Sets the caps. A raised cap unparks as many rows, as far as slots are free. */
const SET_CAPS = statement(
  "limits_set_caps",
  `WITH RECURSIVE raised AS (
     UPDATE limits l SET cap = w.cap FROM unnest(:limits::bigint[], :oldCaps::int[], :caps::int[]) AS w (id, old, cap)
     WHERE l.id = w.id RETURNING l.id, LEAST(GREATEST(w.cap - w.old, 0), ${FREE_SLOTS}) AS rows
   ), ${UNPARK("raised")}`,
)

const LOCK = statement(
  "limits_lock",
  "SELECT id, cap, used FROM limits WHERE id = ANY (:limits::bigint[]) ORDER BY id FOR UPDATE",
)

const TRY_LOCK = statement(
  "limits_try_lock",
  "SELECT id, cap, used FROM limits WHERE id = ANY (:limits::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED",
)

const USE = statement(
  "limits_use",
  `UPDATE limits l SET used = l.used + c.slots
   FROM (SELECT id, count(*)::int AS slots FROM unnest(:limits::bigint[]) AS u (id) GROUP BY id) c WHERE l.id = c.id`,
)

const FREED = `freed AS (
     UPDATE limits l SET used = GREATEST(l.used - c.slots, 0)
     FROM unnest(:limits::bigint[], :slots::int[], :unparks::int[]) AS c (id, slots, unparks)
     WHERE l.id = c.id RETURNING l.id, LEAST(c.unparks, ${FREE_SLOTS}) AS rows
   )`

export const FREE = statement("limits_free", `WITH RECURSIVE ${FREED}, ${UNPARK("freed")}`)

/** Unparks only the rows that come first in the lanes of a claim. `parked`: limits that had parked rows, in whatever lane. */
const FREE_FOR_CLAIM = statement(
  "limits_free_for_claim",
  `WITH RECURSIVE ${FREED}, ${PARKED_LANES("freed")}, first AS MATERIALIZED (
     SELECT f.id AS parked_under, r.id FROM freed f CROSS JOIN LATERAL (
       SELECT p.id FROM parked_lanes o CROSS JOIN LATERAL (
         SELECT p.* FROM tasks p WHERE p.parked = o.id AND p.lane = o.lane ORDER BY ${claimOrder("p")} LIMIT o.rows
       ) p WHERE o.id = f.id AND ${IS_WANTED("o.lane")} ORDER BY ${claimOrder("p")} LIMIT f.rows
     ) r
   ), unparked AS (
     UPDATE tasks t SET parked = NULL FROM first f CROSS JOIN LATERAL (
       SELECT p.id FROM tasks p WHERE p.id = f.id AND p.parked = f.parked_under FOR NO KEY UPDATE SKIP LOCKED
     ) p WHERE t.id = p.id RETURNING ${READINESS("t")}
   ), enqueued AS (
     ${insertInto("ready_queue", "unparked")}
   )
   SELECT (SELECT count(*) FROM unparked)::int AS unparked, ARRAY(SELECT DISTINCT id FROM parked_lanes) AS parked, ARRAY(
     SELECT DISTINCT parked_under FROM first WHERE id <> ALL (ARRAY(SELECT id FROM unparked))
   ) AS missed`,
)

/** Unparks rows of every lane, as far as slots are free. */
const UNPARK_REST = statement(
  "limits_unpark_rest",
  `WITH RECURSIVE rest AS (
     SELECT l.id, LEAST(c.rows, ${FREE_SLOTS}) AS rows FROM unnest(:limits::bigint[], :rows::int[]) AS c (id, rows)
     JOIN limits l ON l.id = c.id
   ), ${UNPARK("rest")}`,
)

interface LimitRow extends LimitState {
  id: number
}

/**
 * Returns the ids of these limits by key. Creates limits on first use and adjusts their caps. None is removed before the end of the
 * transaction, which puts rows under them (`excludeKeyLimits`).
 */
export const ensureLimits = async (tx: Tx, limits: Iterable<Limit>): Promise<Map<string, number>> => {
  const wanted = [...new Map([...limits].map((limit) => [limit.key, limit])).values()]
  const ids = new Map<string, number>()
  const changed: { id: number; old: number; cap: number }[] = []
  const shared = wanted.some(({ key }) => isKeyLimit(key)) ? pipelined(tx.run(SHARE_KEY_LIMITS)) : null
  // The insert waits for a transaction that creates the same limit; only the next query sees its row.
  for (let missing = wanted; missing.length > 0; missing = missing.filter(({ key }) => !ids.has(key))) {
    const params = { keys: missing.map(({ key }) => key), caps: missing.map(({ cap }) => cap) }
    const caps = new Map(missing.map(({ key, cap }) => [key, cap]))
    for (const row of await tx.run<{ id: number; key: string; cap: number }>(ENSURE, params)) {
      ids.set(row.key, row.id)
      const cap = caps.get(row.key)!
      if (cap !== row.cap) changed.push({ id: row.id, old: row.cap, cap })
    }
  }
  await shared
  if (changed.length > 0) {
    await lockLimits(
      tx,
      changed.map(({ id }) => id),
    )
    await runUnpark(tx, SET_CAPS, {
      limits: changed.map(({ id }) => id),
      oldCaps: changed.map(({ old }) => old),
      caps: changed.map(({ cap }) => cap),
    })
  }
  return ids
}

const states = (rows: readonly LimitRow[]): Map<number, LimitState> =>
  new Map(rows.map(({ id, cap, used }) => [id, { cap, used }]))

export const lockLimits = async (tx: SqlRunner, ids: Iterable<number>): Promise<Map<number, LimitState>> =>
  states(await tx.run<LimitRow>(LOCK, { limits: [...new Set(ids)] }))

export const tryLockLimits = async (tx: SqlRunner, ids: Iterable<number>): Promise<Map<number, LimitState>> =>
  states(await tx.run<LimitRow>(TRY_LOCK, { limits: [...new Set(ids)] }))

/** Uses one slot of each. The caller has locked the limits and knows that they have one. */
export const useSlots = async (tx: SqlRunner, ids: readonly number[]): Promise<void> => {
  await tx.run(USE, { limits: ids })
}

/** Freed slots, and how many parked rows to unpark. */
export class FreedSlots {
  readonly #slots = new Map<number, number>()
  readonly #unparks = new Map<number, number>()
  /** Limits that had parked rows at `applyForClaim`. */
  #parked: readonly number[] = []

  /** Gives back one slot of each limit. */
  free(limits: readonly number[] | null): void {
    for (const id of limits ?? []) this.#slots.set(id, (this.#slots.get(id) ?? 0) + 1)
    this.unparkInPlaceOf(limits)
  }

  /** Unparks the next rows of each limit, in place of rows that left without using their slots. */
  unparkInPlaceOf(limits: readonly number[] | null, rows = 1): void {
    for (const id of limits ?? []) this.#unparks.set(id, (this.#unparks.get(id) ?? 0) + rows)
  }

  /** Writes the slots back and unparks rows; returns how many. */
  async apply(tx: Tx): Promise<number> {
    if (this.#unparks.size === 0) return 0
    const locked = pipelined(lockLimits(tx, this.#unparks.keys()))
    const unparked = runUnpark(tx, FREE, this.#params)
    await locked
    return unparked
  }

  /**
   * Writes the slots back and unparks the rows that come first in the lanes of a claim, which follows in the same transaction; returns
   * how many. `unparkRest` gives the slots that the claim leaves to rows of all lanes.
   */
  async applyForClaim(tx: Tx, lanes: readonly string[]): Promise<number> {
    if (this.#unparks.size === 0) return 0
    const locked = pipelined(lockLimits(tx, this.#unparks.keys()))
    const freed = tx.run<Unparked & { parked: number[] }>(FREE_FOR_CLAIM, {
      ...this.#params,
      ...laneParams(lanes),
    })
    await locked
    const [reply] = await freed
    for (const limit of reply!.missed) tx.cache.missedLimits.add(limit)
    this.#parked = reply!.parked
    return reply!.unparked
  }

  /** Unparks rows of every lane for the slots that `claimed` did not use after `applyForClaim`; returns how many. */
  async unparkRest(tx: Tx, claimed: readonly { limits: number[] | null }[]): Promise<number> {
    const left = new Map(this.#parked.map((id) => [id, this.#unparks.get(id)!]))
    for (const { limits } of claimed) for (const id of limits ?? []) if (left.has(id)) left.set(id, left.get(id)! - 1)
    const rest = [...left].filter(([, rows]) => rows > 0)
    if (rest.length === 0) return 0
    return runUnpark(tx, UNPARK_REST, { limits: rest.map(([id]) => id), rows: rest.map(([, rows]) => rows) })
  }

  get #params() {
    const limits = [...this.#unparks.keys()]
    return {
      limits,
      slots: limits.map((id) => this.#slots.get(id) ?? 0),
      unparks: limits.map((id) => this.#unparks.get(id)!),
    }
  }
}
