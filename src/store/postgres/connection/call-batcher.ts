// What is asked in one turn of the event loop, or while the last group is under way, is done together: commits of callers, reads; up to a
// bound, so that no transaction grows with how much is asked. If a group fails, each member is tried alone, so that one bad member does
// not fail the others.

interface Member<In, Out> {
  items: In[]
  resolve: (answers: Out[]) => void
  reject: (reason: unknown) => void
}

export class CallBatcher<In, Out> {
  readonly #work: (items: In[]) => Promise<Out[]>
  readonly #maxWeight: number
  readonly #weight: (item: In) => number
  #waiting: Member<In, Out>[] = []
  #busy = false

  /** `work` answers each item, in order. A group ends with the member that reaches `most`, by the `weight` of items. */
  constructor(work: (items: In[]) => Promise<Out[]>, most: number, weight: (item: In) => number = () => 1) {
    this.#work = work
    this.#maxWeight = most
    this.#weight = weight
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
      const members = this.#waiting.splice(0, this.#size())
      await this.#together(members).catch(() => Promise.all(members.map((member) => this.#alone(member))))
    }
    this.#busy = false
  }

  #size(): number {
    let sum = 0
    const last = this.#waiting.findIndex(
      ({ items }) => (sum += items.reduce((n, item) => n + this.#weight(item), 0)) >= this.#maxWeight,
    )
    return last === -1 ? this.#waiting.length : last + 1
  }

  async #together(members: readonly Member<In, Out>[]): Promise<void> {
    if (members.length === 1) return this.#alone(members[0]!)
    const answers = await this.#work(members.flatMap(({ items }) => items))
    let next = 0
    for (const { items, resolve } of members) resolve(answers.slice(next, (next += items.length)))
  }

  #alone({ items, resolve, reject }: Member<In, Out>): Promise<void> {
    return this.#work(items).then(resolve, reject)
  }
}
