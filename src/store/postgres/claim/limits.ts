// Slots of limits. Their rows are locked in order of id before anything is given back; a claim takes those that nobody else
// has locked (core `admit` leaves the others for the next turn). Parked rows wait under the limit that was full.

import type { LimitState } from "../../../core/rules/admit.ts"
import type { Limit } from "../../../core/model/row.ts"
import { anyParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import { ENQUEUE, READINESS } from "./ready-queue.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"

const ENSURE = statement(
  "limits_ensure",
  `WITH wanted AS (SELECT * FROM unnest($1::text[], $2::int[]) AS w (key, cap)), added AS (
     INSERT INTO limits (key, cap) SELECT key, cap FROM wanted ORDER BY key ON CONFLICT (key) DO NOTHING RETURNING id, key, cap
   )
   SELECT id, key, cap FROM added
   UNION ALL SELECT l.id, l.key, l.cap FROM wanted w JOIN limits l ON l.key = w.key`,
)

/** A raised cap lets as many parked rows have another look. */
const RECAP = statement(
  "limits_recap",
  `WITH raised AS (
     UPDATE limits l SET cap = w.cap FROM unnest($1::bigint[], $2::int[], $3::int[]) AS w (id, old, cap)
     WHERE l.id = w.id RETURNING l.id, w.cap - w.old AS more
   ), unparked AS (
     UPDATE tasks t SET parked = NULL FROM raised r CROSS JOIN LATERAL (
       SELECT id FROM tasks WHERE parked = r.id ORDER BY priority DESC, run_seq, id LIMIT GREATEST(r.more, 0)
       FOR NO KEY UPDATE SKIP LOCKED
     ) p WHERE t.id = p.id RETURNING ${READINESS("t")}
   )
   ${ENQUEUE("unparked")}`,
)

const LOCK = statement("limits_lock", "SELECT id, cap, used FROM limits WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE")

const TRY_LOCK = statement(
  "limits_try_lock",
  "SELECT id, cap, used FROM limits WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED",
)

const USE = statement(
  "limits_use",
  `UPDATE limits l SET used = l.used + c.slots
   FROM (SELECT id, count(*)::int AS slots FROM unnest($1::bigint[]) AS u (id) GROUP BY id) c WHERE l.id = c.id`,
)

const FREE = statement(
  "limits_free",
  `WITH freed AS (
     UPDATE limits l SET used = GREATEST(l.used - c.slots, 0)
     FROM unnest($1::bigint[], $2::int[], $3::int[]) AS c (id, slots, chances)
     WHERE l.id = c.id RETURNING l.id, LEAST(c.chances, l.cap - l.used) AS room
   ), unparked AS (
     UPDATE tasks t SET parked = NULL FROM freed f CROSS JOIN LATERAL (
       SELECT id FROM tasks WHERE parked = f.id ORDER BY priority DESC, run_seq, id LIMIT GREATEST(f.room, 0)
       FOR NO KEY UPDATE SKIP LOCKED
     ) p WHERE t.id = p.id RETURNING ${READINESS("t")}
   ), listed AS (
     ${ENQUEUE("unparked")}
   )
   SELECT id FROM unparked`,
)

interface LimitRow extends LimitState {
  id: number
}

/** The ids of these limits, made on first use. */
export const ensureLimits = async (tx: SqlRunner, limits: Iterable<Limit>): Promise<Map<string, number>> => {
  const wanted = [...new Map([...limits].map((limit) => [limit.key, limit])).values()]
  const ids = new Map<string, number>()
  const changed: { id: number; old: number; cap: number }[] = []
  // Another transaction that makes the same limit is waited for, and its row is there for the next look only.
  for (let missing = wanted; missing.length > 0; missing = missing.filter(({ key }) => !ids.has(key))) {
    const values = [textArrayParam(missing.map(({ key }) => key)), arrayParam(missing.map(({ cap }) => cap))]
    const caps = new Map(missing.map(({ key, cap }) => [key, cap]))
    for (const row of await tx.run<{ id: number; key: string; cap: number }>(ENSURE, values)) {
      ids.set(row.key, row.id)
      const cap = caps.get(row.key)!
      if (cap !== row.cap) changed.push({ id: row.id, old: row.cap, cap })
    }
  }
  if (changed.length > 0) {
    await lockLimits(
      tx,
      changed.map(({ id }) => id),
    )
    const columns = [changed.map(({ id }) => id), changed.map(({ old }) => old), changed.map(({ cap }) => cap)]
    await tx.run(RECAP, columns.map(arrayParam))
  }
  return ids
}

const states = (rows: readonly LimitRow[]): Map<number, LimitState> =>
  new Map(rows.map(({ id, cap, used }) => [id, { cap, used }]))

export const lockLimits = async (tx: SqlRunner, ids: Iterable<number>): Promise<Map<number, LimitState>> =>
  states(await tx.run<LimitRow>(LOCK, [anyParam(new Set(ids))]))

export const tryLockLimits = async (tx: SqlRunner, ids: Iterable<number>): Promise<Map<number, LimitState>> =>
  states(await tx.run<LimitRow>(TRY_LOCK, [anyParam(new Set(ids))]))

/** One slot each; the caller has locked them and knows that there is one. */
export const useSlots = async (tx: SqlRunner, ids: readonly number[]): Promise<void> => {
  await tx.run(USE, [arrayParam(ids)])
}

/** What a transaction gives back to limits. `chances`: rows that went away unclaimed, whose turn the next parked one has. */
export class FreedSlots {
  readonly #slots = new Map<number, number>()
  readonly #chances = new Map<number, number>()

  addSlots(limits: readonly number[] | null): void {
    for (const id of limits ?? []) {
      this.#slots.set(id, (this.#slots.get(id) ?? 0) + 1)
      this.#chances.set(id, (this.#chances.get(id) ?? 0) + 1)
    }
  }

  addChances(limits: readonly number[] | null): void {
    for (const id of limits ?? []) this.#chances.set(id, (this.#chances.get(id) ?? 0) + 1)
  }

  get any(): boolean {
    return this.#chances.size > 0
  }

  /** Gives it all back and lets as many parked rows be claimed; returns how many. */
  async apply(tx: SqlRunner): Promise<number> {
    const ids = [...this.#chances.keys()]
    const locked = pipelined(lockLimits(tx, ids))
    const values = [ids, ids.map((id) => this.#slots.get(id) ?? 0), ids.map((id) => this.#chances.get(id)!)]
    const unparked = tx.run(FREE, values.map(arrayParam))
    await locked
    return (await unparked).length
  }
}
