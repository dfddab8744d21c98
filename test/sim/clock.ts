// Virtual time: a queue of events, taken in order of their time and then of their making. Nothing moves the clock but taking
// the next event. Each event has an owner; what a crashed owner had planned never happens.

import type { Clock } from "../../src/core/model/ports.ts"

export interface Owner {
  alive: boolean
}

interface Planned {
  at: number
  order: number
  owner: Owner | null
  run: () => void
  cancelled: boolean
}

const START_MS = Date.parse("2026-01-01T00:00:00.000Z")

export class VirtualClock implements Clock {
  #now = START_MS
  #order = 0
  /** A binary heap. */
  readonly #queue: Planned[] = []

  now(): number {
    return this.#now
  }

  /** Milliseconds since the beginning, for traces. */
  get elapsed(): number {
    return this.#now - START_MS
  }

  after(ms: number, run: () => void): () => void {
    return this.#plan(ms, null, run)
  }

  /** The same clock for one owner. */
  of(owner: Owner): Clock {
    return { now: () => this.#now, after: (ms, run) => this.#plan(ms, owner, run) }
  }

  #plan(ms: number, owner: Owner | null, run: () => void): () => void {
    const planned = { at: this.#now + Math.max(0, Math.ceil(ms)), order: this.#order++, owner, run, cancelled: false }
    this.#push(planned)
    return () => {
      planned.cancelled = true
    }
  }

  /** When the next event is due, or null. */
  peek(): number | null {
    for (let top = this.#queue[0]; top !== undefined; top = this.#queue[0]) {
      if (!top.cancelled && (top.owner === null || top.owner.alive)) return top.at
      this.#pop()
    }
    return null
  }

  /** Moves to the next event and runs it. False: there is none. */
  step(): boolean {
    const at = this.peek()
    if (at === null) return false
    this.#now = at
    this.#pop().run()
    return true
  }

  #push(item: Planned): void {
    const queue = this.#queue
    let i = queue.length
    queue.push(item)
    while (i > 0) {
      const up = (i - 1) >> 1
      if (!before(item, queue[up]!)) break
      queue[i] = queue[up]!
      i = up
    }
    queue[i] = item
  }

  #pop(): Planned {
    const queue = this.#queue
    const top = queue[0]!
    const last = queue.pop()!
    if (queue.length === 0) return top
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= queue.length) break
      if (child + 1 < queue.length && before(queue[child + 1]!, queue[child]!)) child += 1
      if (!before(queue[child]!, last)) break
      queue[i] = queue[child]!
      i = child
    }
    queue[i] = last
    return top
  }
}

const before = (a: Planned, b: Planned): boolean => a.at < b.at || (a.at === b.at && a.order < b.order)
