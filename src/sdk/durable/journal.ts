// Records steps of durable functions. Records of one tick share a transaction.

import type { AttemptId } from "../../core/model/ids.ts"
import type { FunctionState, FunctionStore, NewStep } from "../../store/contract/functions.ts"

/** Another process has the function now, or its run was cancelled. */
export class LostFunction extends Error {}

interface Waiting<Key, Value> {
  key: Key
  resolve(value: Value): void
  reject(error: unknown): void
}

const MAX_BATCH = 500

/** Collects calls while a batch is in flight, and makes them together. */
class Batches<Key, Value> {
  readonly #call: (keys: Key[]) => Promise<(key: Key) => Value>
  #waiting: Waiting<Key, Value>[] = []
  #inFlight = 0
  #scheduled = false
  readonly #maxInFlight: number

  constructor(maxInFlight: number, call: (keys: Key[]) => Promise<(key: Key) => Value>) {
    this.#maxInFlight = maxInFlight
    this.#call = call
  }

  add(key: Key): Promise<Value> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve, reject })
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#scheduled || this.#inFlight >= this.#maxInFlight || this.#waiting.length === 0) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      void this.#flush()
    })
  }

  async #flush(): Promise<void> {
    const batch = this.#waiting.splice(0, MAX_BATCH)
    this.#inFlight++
    this.#schedule()
    try {
      const valueOf = await this.#call(batch.map(({ key }) => key))
      for (const { key, resolve } of batch) resolve(valueOf(key))
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
    this.#inFlight--
    this.#schedule()
  }
}

/** Batches that are written at once. More would not make a store faster. */
const MAX_WRITES = 2

export class Journal {
  readonly #loads: Batches<number, FunctionState>
  readonly #records: Batches<NewStep[], boolean>

  constructor(store: Pick<FunctionStore, "loadFunctions" | "recordSteps">) {
    this.#loads = new Batches(1, async (rows) => {
      const states = await store.loadFunctions([...new Set(rows)])
      return (row) => states.get(row) ?? { steps: [], signals: [], resumeRequests: 0 }
    })
    this.#records = new Batches(MAX_WRITES, async (lists) => {
      const lost = new Set<AttemptId>(await store.recordSteps(lists.flat()))
      return (steps) => steps.every(({ attemptId }) => !lost.has(attemptId))
    })
  }

  load(row: number): Promise<FunctionState> {
    return this.#loads.add(row)
  }

  /** Resolves when the steps are committed. Rejects with LostFunction when they were not accepted. */
  async record(steps: NewStep[]): Promise<void> {
    if (!(await this.#records.add(steps))) throw new LostFunction("the function runs elsewhere now, or has ended")
  }
}
