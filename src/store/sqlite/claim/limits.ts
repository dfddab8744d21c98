// Slots of limits inside one transaction. Their counts are read once, changed in memory (the transaction is the only
// writer) and written back by `save`.

import type { LimitState } from "../../../core/rules/admit.ts"
import type { Limit } from "../../../core/model/row.ts"
import type { Database } from "../connection/database.ts"

const READ = "SELECT cap, used, key GLOB '[rt]:*' FROM limits WHERE id = ?"

const PUT = `
INSERT INTO limits (key, cap) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET cap = excluded.cap WHERE cap <> excluded.cap`

const FIND = "SELECT id, cap, used FROM limits WHERE key = ?"

const WRITE = "UPDATE limits SET used = ? WHERE id = ?"

const UNPARK = `
UPDATE tasks SET parked = NULL WHERE id IN (
  SELECT id FROM tasks WHERE parked = ? ORDER BY priority DESC, run_seq, id LIMIT ? + 0
) RETURNING run_seq`

interface KnownLimit extends LimitState {
  /** Rows of several runs are under it; `r:` and `t:` are a run's own. */
  shared: boolean
}

export class LimitUsage {
  readonly #db: Database
  readonly #states = new Map<number, KnownLimit>()
  readonly #dirty = new Set<number>()

  constructor(db: Database) {
    this.#db = db
  }

  state(id: number): KnownLimit {
    let state = this.#states.get(id)
    if (state === undefined) {
      const [cap, used, own] = this.#db.get<[number, number, number]>(READ, id)!
      state = { cap, used, shared: own === 0 }
      this.#states.set(id, state)
    }
    return state
  }

  /** Those whose room other runs could use when this one is paused or cancelled. */
  shared(ids: readonly number[]): readonly number[] {
    return ids.length === 0 ? ids : ids.filter((id) => this.state(id).shared)
  }

  states(ids: Iterable<number>): Map<number, LimitState> {
    const states = new Map<number, LimitState>()
    for (const id of ids) states.set(id, this.state(id))
    return states
  }

  /** The ids of these limits, made on first use. A cap that was raised lets that many parked rows have another look. */
  ensure(limits: readonly Limit[]): number[] {
    return limits.map(({ key, cap }) => {
      const before = this.#db.get<[number, number, number]>(FIND, key)
      if (before !== undefined && before[1] === cap) return before[0]
      this.#db.run(PUT, key, cap)
      const [id] = this.#db.get<[number, number, number]>(FIND, key)!
      const known = this.#states.get(id)
      if (known !== undefined) known.cap = cap
      if (before !== undefined && cap > before[1]) this.unpark(id, cap - before[1])
      return id
    })
  }

  use(id: number, slots: number): void {
    this.state(id).used += slots
    this.#dirty.add(id)
  }

  /** Gives slots back, never below 0. */
  free(id: number, slots: number): void {
    const state = this.state(id)
    state.used = Math.max(0, state.used - slots)
    this.#dirty.add(id)
  }

  /** Lets the next rows that wait under this limit be claimed, as far as it has room. Returns their runs. */
  unpark(id: number, rows: number): number[] {
    const { cap, used } = this.state(id)
    const room = Math.min(rows, cap - used)
    return room <= 0 ? [] : this.#db.all<[number]>(UNPARK, id, room).map(([runSeq]) => runSeq)
  }

  save(): void {
    for (const id of this.#dirty) this.#db.run(WRITE, this.#states.get(id)!.used, id)
    this.#dirty.clear()
  }
}

export const limitIds = (text: string | null): readonly number[] => (text === null ? NONE : (JSON.parse(text) as number[]))
export const limitText = (ids: readonly number[]): string | null => (ids.length === 0 ? null : JSON.stringify(ids))

const NONE: readonly number[] = []
