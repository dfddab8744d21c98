// Tries a request again while that may help: a server that is busy says when, for the others the pauses grow. Bounded.

import type { Clock } from "../../core/model/ports.ts"
import { backoff, delay, Turnstile } from "../remote/pacing.ts"
import { ApiError, isPassing } from "./api-error.ts"

export { backoff, delay, Turnstile }

const TRIES = 8
/** No server may hold us up for longer. */
const MAX_RETRY_AFTER_MS = 60_000

/** `signal` ends the pauses: the next failure is then the last. */
export const persist = async <T>(clock: Clock, signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> => {
  for (let tries = 0; ; tries++) {
    try {
      return await call()
    } catch (error) {
      if (!isPassing(error) || tries + 1 >= TRIES || signal?.aborted === true) throw error
      const asked = error instanceof ApiError ? error.retryAfterMs : null
      await delay(clock, asked === null ? backoff(tries) : Math.min(MAX_RETRY_AFTER_MS, asked), signal)
    }
  }
}
