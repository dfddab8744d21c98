// Decides, from the responses of an event loop, whether it runs, is blocked, or has been blocked for longer than the stall limit.

export type LoopState = "running" | "blocked" | "stalled"

export class StallCounter {
  readonly #limit: number
  #silentChecks = 0

  /** `checkMs`: time between two calls of `check`. */
  constructor({ checkMs, stallMs }: { checkMs: number; stallMs: number }) {
    this.#limit = stallMs / checkMs
  }

  /** Starts the count again: the event loop has responded. */
  alive(): void {
    this.#silentChecks = 0
  }

  /** Counts checks, not time: a loop that was paused together with the thread that checks it has not been blocked. */
  check(): LoopState {
    const silent = this.#silentChecks++
    if (silent === 0) return "running"
    return silent < this.#limit ? "blocked" : "stalled"
  }
}

/** Returns what a process prints when its event loop has reached the stall limit. */
export const stallMessage = (stallMs: number): string =>
  `the event loop has been blocked for ${stallMs / 1000} s, the stall limit: other processes may take over its work. Compute in a worker ` +
  "thread or a process, or raise the stall limit"
