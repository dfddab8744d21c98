// Passes on the progress of an attempt at most once a second; only the latest counts.

import type { Clock } from "../../core/model/ports.ts"
import type { Progress } from "../../executors/executor.ts"

const INTERVAL_MS = 1000

export class ProgressThrottle {
  readonly #clock: Clock
  readonly #report: (progress: Progress) => void
  #next: Progress | null = null
  #reportedAt = Number.NEGATIVE_INFINITY
  #cancel: (() => void) | null = null

  constructor(clock: Clock, report: (progress: Progress) => void) {
    this.#clock = clock
    this.#report = report
  }

  report(progress: Progress): void {
    this.#next = progress
    const waitMs = this.#reportedAt + INTERVAL_MS - this.#clock.monotonic()
    if (waitMs <= 0) this.#flush()
    else this.#cancel ??= this.#clock.after(waitMs, () => this.#flush())
  }

  /** Drops progress that was not passed on: the attempt has ended. */
  stop(): void {
    this.#cancel?.()
    this.#cancel = null
    this.#next = null
  }

  #flush(): void {
    this.#cancel?.()
    this.#cancel = null
    if (this.#next === null) return
    this.#reportedAt = this.#clock.monotonic()
    this.#report(this.#next)
    this.#next = null
  }
}
