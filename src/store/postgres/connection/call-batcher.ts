// Batches calls: those made in one turn of the event loop, or while the previous batch is in progress, are handled together, up to a
// maximum weight. When a batch fails, each call is tried by itself, so that one bad call does not fail the others.

interface Call<In, Out> {
  items: In[]
  resolve: (results: Out[]) => void
  reject: (reason: unknown) => void
}

export class CallBatcher<In, Out> {
  readonly #handle: (items: In[]) => Promise<Out[]>
  readonly #maxWeight: number
  readonly #weigh: (item: In) => number
  #waiting: Call<In, Out>[] = []
  #busy = false

  /** Creates a batcher. `handle` returns one result per item, in order. A batch ends with the call that reaches `maxWeight`. */
  constructor(handle: (items: In[]) => Promise<Out[]>, maxWeight: number, weigh: (item: In) => number = () => 1) {
    this.#handle = handle
    this.#maxWeight = maxWeight
    this.#weigh = weigh
  }

  add(items: In[]): Promise<Out[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      if (this.#waiting.length === 1 && !this.#busy) setImmediate(() => void this.#flush())
    })
  }

  async #flush(): Promise<void> {
    this.#busy = true
    while (this.#waiting.length > 0) {
      const calls = this.#waiting.splice(0, this.#batchSize())
      await this.#handleBatch(calls).catch(() => Promise.all(calls.map((call) => this.#handleSingle(call))))
    }
    this.#busy = false
  }

  #batchSize(): number {
    let sum = 0
    const last = this.#waiting.findIndex(
      ({ items }) => (sum += items.reduce((n, item) => n + this.#weigh(item), 0)) >= this.#maxWeight,
    )
    return last === -1 ? this.#waiting.length : last + 1
  }

  async #handleBatch(calls: readonly Call<In, Out>[]): Promise<void> {
    if (calls.length === 1) return this.#handleSingle(calls[0]!)
    const results = await this.#handle(calls.flatMap(({ items }) => items))
    let next = 0
    for (const { items, resolve } of calls) resolve(results.slice(next, (next += items.length)))
  }

  #handleSingle({ items, resolve, reject }: Call<In, Out>): Promise<void> {
    return this.#handle(items).then(resolve, reject)
  }
}
