// Looks at the status of every attempt that runs in `ork exec`: one timer for all of them, a few reads at a time. An attempt is looked at
// every second at first, then less and less often up to every five seconds; when a round takes long, the next one waits longer.

import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"

export interface Looked {
  readonly key: string
  /** The object's content, null when it is not there, or the error of a read. */
  seen(content: Uint8Array | null | Error): void
}

const FIRST_MS = 1000
const LAST_MS = 5000
const GROWTH = 1.25
const AT_ONCE = 16
/** Of the time between two rounds, the part that is spent looking is at most one of this. */
const SHARE = 4

interface Entry {
  at: number
  gap: number
}

const loops = new WeakMap<ObjectStore, ExecLoop>()

export const loopOf = (objects: ObjectStore, clock: Clock): ExecLoop => {
  const loop = loops.get(objects) ?? new ExecLoop(objects, clock)
  loops.set(objects, loop)
  return loop
}

class ExecLoop {
  readonly #objects: ObjectStore
  readonly #clock: Clock
  readonly #all = new Map<Looked, Entry>()
  #timer: { at: number; cancel: () => void } | null = null
  #looking = false
  #restUntil = 0

  constructor(objects: ObjectStore, clock: Clock) {
    this.#objects = objects
    this.#clock = clock
  }

  add(looked: Looked): void {
    this.#all.set(looked, { at: this.#clock.now() + FIRST_MS, gap: FIRST_MS })
    this.#plan()
  }

  remove(looked: Looked): void {
    this.#all.delete(looked)
    if (this.#all.size > 0) return
    this.#timer?.cancel()
    this.#timer = null
  }

  /** Something is known to have happened. */
  lookNow(looked: Looked): void {
    const entry = this.#all.get(looked)
    if (entry === undefined) return
    entry.at = 0
    entry.gap = FIRST_MS
    this.#plan()
  }

  #plan(): void {
    if (this.#looking || this.#all.size === 0) return
    let next = Number.POSITIVE_INFINITY
    for (const { at } of this.#all.values()) next = Math.min(next, at === 0 ? 0 : Math.max(at, this.#restUntil))
    if (this.#timer !== null && this.#timer.at <= next) return
    this.#timer?.cancel()
    const cancel = this.#clock.after(Math.max(0, next - this.#clock.now()), () => {
      this.#timer = null
      void this.#round()
    })
    this.#timer = { at: next, cancel }
  }

  async #round(): Promise<void> {
    this.#looking = true
    const began = this.#clock.now()
    const due = [...this.#all].filter(([, entry]) => entry.at <= began)
    const next = due[Symbol.iterator]()
    const worker = async (): Promise<void> => {
      for (const [looked, entry] of next) {
        entry.gap = Math.min(LAST_MS, entry.gap * GROWTH)
        entry.at = this.#clock.now() + entry.gap
        looked.seen(await this.#objects.get(looked.key).catch(asError))
      }
    }
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, due.length) }, worker))
    const now = this.#clock.now()
    this.#restUntil = now + (now - began) * (SHARE - 1)
    this.#looking = false
    this.#plan()
  }
}

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))
