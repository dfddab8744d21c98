// Slots of limits inside one transaction. Each limit is read once, counted in memory (the transaction is the only writer) and
// written back by `save`.

import type { LimitState } from "../../../core/rules/claims/admit.ts"
import { LIMIT_PREFIX } from "../../../core/routing/limit-keys.ts"
import type { Limit } from "../../../core/model/row.ts"
import { freeSlots } from "../../../core/rules/claims/slots.ts"
import { claimOrder } from "../../shared/claim-order.ts"
import type { Database } from "../connection/database.ts"

const READ = `SELECT cap, used, key GLOB '${LIMIT_PREFIX.run}*' OR key GLOB '${LIMIT_PREFIX.task}*' FROM limits WHERE id = ?`

const PUT = `
INSERT INTO limits (key, cap) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET cap = excluded.cap WHERE cap <> excluded.cap`

const FIND = "SELECT id, cap FROM limits WHERE key = ?"

const WRITE = "UPDATE limits SET used = ? WHERE id = ?"

const NEXT_PARKED_LANE = `
SELECT lane FROM tasks INDEXED BY tasks_parked WHERE parked = ? AND lane > ? ORDER BY lane LIMIT 1`

const UNPARK = `
UPDATE tasks SET parked = NULL WHERE id IN (
  SELECT id FROM tasks INDEXED BY tasks_parked WHERE parked = ? AND lane = ? ORDER BY ${claimOrder()} LIMIT ? + 0
) RETURNING run_seq`

interface ReadLimit extends LimitState {
  /** Rows of several runs share the limit. Limits of a workflow's or task's `concurrency` belong to one run. */
  isShared: boolean
}

export class LimitUsage {
  readonly #db: Database
  readonly #states = new Map<number, ReadLimit>()
  readonly #changed = new Set<number>()

  constructor(db: Database) {
    this.#db = db
  }

  state(id: number): ReadLimit {
    let state = this.#states.get(id)
    if (state === undefined) {
      const [cap, used, ofOneRun] = this.#db.get<[number, number, number]>(READ, id)!
      state = { cap, used, isShared: ofOneRun === 0 }
      this.#states.set(id, state)
    }
    return state
  }

  /** Returns the limits whose slots other runs can use while this run is paused or cancelled. */
  shared(ids: readonly number[]): readonly number[] {
    return ids.length === 0 ? ids : ids.filter((id) => this.state(id).isShared)
  }

  states(ids: Iterable<number>): Map<number, LimitState> {
    const states = new Map<number, LimitState>()
    for (const id of ids) states.set(id, this.state(id))
    return states
  }

  /** Returns the ids of these limits and creates those that are new. A raised cap unparks as many rows. */
  ensure(limits: readonly Limit[]): number[] {
    return limits.map(({ key, cap }) => {
      const before = this.#db.get<[number, number]>(FIND, key)
      if (before !== undefined && before[1] === cap) return before[0]
      this.#db.run(PUT, key, cap)
      const [id] = this.#db.get<[number, number]>(FIND, key)!
      const state = this.#states.get(id)
      if (state !== undefined) state.cap = cap
      if (before !== undefined && cap > before[1]) this.unpark(id, cap - before[1])
      return id
    })
  }

  use(id: number, slots: number): void {
    this.state(id).used += slots
    this.#changed.add(id)
  }

  /** Frees slots. The number of used slots never falls below 0. */
  free(id: number, slots: number): void {
    const state = this.state(id)
    state.used = Math.max(0, state.used - slots)
    this.#changed.add(id)
  }

  /**
   * Unparks up to this many rows, as far as the limit has free slots, of every lane with parked rows: nobody may claim from some
   * lanes (a paused queue, a dead `ork run`). A claim that finds no slot for a row parks it again. Returns the runs of the rows.
   */
  unpark(id: number, rows: number): number[] {
    const count = Math.min(rows, freeSlots(this.state(id)))
    const runs: number[] = []
    for (let lane = ""; count > 0;) {
      const next = this.#db.get<[string]>(NEXT_PARKED_LANE, id, lane)
      if (next === undefined) break
      lane = next[0]
      runs.push(...this.#db.all<[number]>(UNPARK, id, lane, count).map(([runSeq]) => runSeq))
    }
    return runs
  }

  save(): void {
    for (const id of this.#changed) this.#db.run(WRITE, this.#states.get(id)!.used, id)
    this.#changed.clear()
  }
}
