// What an attempt says of how far it is, at most once a second: the latest counts.

import type { Clock } from "../../core/model/ports.ts"
import type { Progress } from "../../executors/executor.ts"

const EVERY_MS = 1000

export class ProgressThrottle {
  readonly #clock: Clock
  readonly #tell: (progress: Progress) => void
  #next: Progress | null = null
  #toldAt = Number.NEGATIVE_INFINITY
  #cancel: (() => void) | null = null

  constructor(clock: Clock, tell: (progress: Progress) => void) {
    this.#clock = clock
    this.#tell = tell
  }

  report(progress: Progress): void {
    this.#next = progress
    const early = this.#toldAt + EVERY_MS - this.#clock.now()
    if (early <= 0) this.#flush()
    else this.#cancel ??= this.#clock.after(early, () => this.#flush())
  }

  /** It has ended: what it did not say yet is of no use any more. */
  stop(): void {
    this.#cancel?.()
    this.#cancel = null
    this.#next = null
  }

  #flush(): void {
    this.#cancel?.()
    this.#cancel = null
    if (this.#next === null) return
    this.#toldAt = this.#clock.now()
    this.#tell(this.#next)
    this.#next = null
  }
}
