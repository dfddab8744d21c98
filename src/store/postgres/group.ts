// Group commit: what is asked in one turn of the event loop, or while the last group is being written, is written together. If a
// group fails, each member is tried alone, so that one bad member does not fail the others.

interface Member<In, Out> {
  items: In[]
  resolve: (answers: Out[]) => void
  reject: (reason: unknown) => void
}

export class Group<In, Out> {
  readonly #write: (items: In[]) => Promise<Out[]>
  #waiting: Member<In, Out>[] = []
  #writing = false

  /** `write` answers each item, in order. */
  constructor(write: (items: In[]) => Promise<Out[]>) {
    this.#write = write
  }

  add(items: In[]): Promise<Out[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      if (this.#waiting.length === 1 && !this.#writing) setImmediate(() => void this.#flush())
    })
  }

  async #flush(): Promise<void> {
    this.#writing = true
    while (this.#waiting.length > 0) {
      const members = this.#waiting
      this.#waiting = []
      await this.#together(members).catch(() => Promise.all(members.map((member) => this.#alone(member))))
    }
    this.#writing = false
  }

  async #together(members: readonly Member<In, Out>[]): Promise<void> {
    if (members.length === 1) return this.#alone(members[0]!)
    const answers = await this.#write(members.flatMap(({ items }) => items))
    let next = 0
    for (const { items, resolve } of members) resolve(answers.slice(next, (next += items.length)))
  }

  #alone({ items, resolve, reject }: Member<In, Out>): Promise<void> {
    return this.#write(items).then(resolve, reject)
  }
}
