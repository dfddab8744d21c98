// Pauses between calls to a service, and the retries of calls that failed for a transient reason.

import type { Clock } from "../../core/model/ports.ts"

const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 10_000
const MAX_TRIES = 8

/** Resolves after `ms`, or when the signal aborts. */
export const delay = (clock: Clock, ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal?.aborted === true) return resolve()
    const done = (): void => {
      cancel()
      signal?.removeEventListener("abort", done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal?.addEventListener("abort", done, { once: true })
  })

/** Returns a pause that doubles with every failure up to `maxMs`, with jitter so that many callers do not return at once. */
export const backoff = (failures: number, maxMs = MAX_PAUSE_MS): number =>
  Math.min(maxMs, FIRST_PAUSE_MS * 2 ** Math.min(failures, 16)) * (0.75 + Math.random() / 2)

export interface RetryOptions {
  clock: Clock
  isTransient(error: unknown): boolean
  /** Returns the milliseconds until the next try. `failures`: how many came before this error. */
  pauseMs(failures: number, error: unknown): number
  /** Ends the current pause, and makes the next failure the last. */
  signal?: AbortSignal | undefined
  maxTries?: number
}

/** Calls until it succeeds or fails for good, at most `maxTries` times; rejects with the last error. */
export const retryTransient = async <T>(options: RetryOptions, call: () => Promise<T>): Promise<T> => {
  const { clock, isTransient, pauseMs, signal, maxTries = MAX_TRIES } = options
  for (let failures = 0; ; failures++) {
    try {
      return await call()
    } catch (error) {
      if (!isTransient(error) || failures + 1 >= maxTries || signal?.aborted === true) throw error
      await delay(clock, pauseMs(failures, error), signal)
    }
  }
}
