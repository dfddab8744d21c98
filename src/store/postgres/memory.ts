// What the store remembers between calls, so that the loop asks the database less: the attempts and gate claims that it gave
// out, and what never changes about runs. Everything is bounded and can be read again; the fence in the database decides.

import type { AttemptId, RunId } from "../../core/ids.ts"
import type { JsonObject } from "../../core/json.ts"
import type { RowKind } from "../store.ts"

/** A row that somebody holds, as far as its changes need it. None of this changes while it is held. */
export interface Held {
  row: number
  attemptId: AttemptId
  runSeq: number
  runId: RunId
  private: boolean
  workflowId: number
  versionId: number
  node: number
  path: string
  kind: RowKind
  attempt: number
  limits: readonly number[] | null
  /** Held by the gate: pending, no attempt counted, no limit used. */
  gate: boolean
  /** A start was recorded and told. */
  started: boolean
}

/** What never changes about a run. */
export interface RunFacts {
  id: RunId
  workflow: string
  versionId: number
  params: JsonObject
  trigger: string
  priority: number
  logicalDate: string | null
  createdAt: string
  private: boolean
  workingDir: string | null
}

/** A map that forgets what was used longest ago. */
export class Recent<Key, Value> {
  readonly #entries = new Map<Key, Value>()
  readonly #size: number

  constructor(size: number) {
    this.#size = size
  }

  get(key: Key): Value | undefined {
    const value = this.#entries.get(key)
    if (value === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, value)
    return value
  }

  set(key: Key, value: Value): void {
    this.#entries.delete(key)
    this.#entries.set(key, value)
    if (this.#entries.size > this.#size) this.#entries.delete(this.#entries.keys().next().value as Key)
  }

  delete(key: Key): void {
    this.#entries.delete(key)
  }
}

const HELD = 100_000
const RUNS = 2_000

export class Memory {
  readonly held = new Recent<AttemptId, Held>(HELD)
  readonly runs = new Recent<number, RunFacts>(RUNS)
}
