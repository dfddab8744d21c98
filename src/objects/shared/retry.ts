// Repeats requests to an object store through an outage: the work of a task must not fail because its log or output cannot be stored now.

import { setTimeout as delay } from "node:timers/promises"

const FIRST_DELAY_MS = 500
const MAX_DELAY_MS = 15_000

/** Codes of errors of the network, which a later try may not meet. */
export const NETWORK_CODES: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ETIMEDOUT",
])

export interface RetryOptions {
  /** Time for which a request is repeated. 0: once. */
  retryForMs: number
  isTransient(error: unknown): boolean
  /** Pause after the first failure; later ones are longer. */
  firstDelayMs?: number
}

/** Repeats a request while its error is transient. `tries`: number of failures so far. */
export const withRetries = async <T>(
  request: (tries: number) => Promise<T>,
  { retryForMs, isTransient, firstDelayMs = FIRST_DELAY_MS }: RetryOptions,
): Promise<T> => {
  const since = performance.now()
  for (let tries = 0; ; tries++) {
    try {
      return await request(tries)
    } catch (error) {
      const pause = Math.min(firstDelayMs * 2 ** tries, MAX_DELAY_MS) * (0.5 + Math.random() / 2)
      if (!isTransient(error) || performance.now() - since + pause >= retryForMs) throw error
      await delay(pause)
    }
  }
}
