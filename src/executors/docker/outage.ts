// Requests that survive an outage of the engine: a container outlives it, so its attempt waits until the engine is back.

import type { Clock } from "../../core/model/ports.ts"
import { EngineError, EngineUnreachable } from "./engine.ts"

const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 5000
/** A proxy's responses while its engine is away. */
const PROXY_STATUSES: ReadonlySet<number> = new Set([502, 503, 504])

export const isOutage = (error: unknown): boolean =>
  error instanceof EngineUnreachable || (error instanceof EngineError && PROXY_STATUSES.has(error.status))

/** Pauses that grow from half a second to five. Ends early when the signal aborts. */
export class Pauses {
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #next = FIRST_PAUSE_MS

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock
    this.#signal = signal
  }

  pause(): Promise<void> {
    const ms = this.#next
    this.#next = Math.min(2 * ms, MAX_PAUSE_MS)
    return new Promise((resolve) => {
      const end = (): void => {
        cancel()
        this.#signal.removeEventListener("abort", end)
        resolve()
      }
      const cancel = this.#clock.after(ms, end)
      if (this.#signal.aborted) end()
      else this.#signal.addEventListener("abort", end)
    })
  }

  reset(): void {
    this.#next = FIRST_PAUSE_MS
  }
}

/** Repeats a request while the engine is away. Rejects when the signal aborts, and for other errors. */
export const untilReachable = async <T>(clock: Clock, signal: AbortSignal, request: () => Promise<T>): Promise<T> => {
  const pauses = new Pauses(clock, signal)
  for (;;) {
    try {
      return await request()
    } catch (error) {
      if (signal.aborted || !isOutage(error)) throw error
      await pauses.pause()
    }
  }
}
