// Interfaces to the outside world that the engine is given, so that tests and the simulation can replace them.

/** The time of day, and a clock for durations. The time of day may step; timeouts and intervals must not follow it. */
export interface Clock {
  /** Returns the milliseconds since the epoch. */
  now(): number
  /** Returns the milliseconds of a clock that never steps. Only differences have a meaning. */
  monotonic(): number
  /** Calls `fn` once after `ms`; the returned function cancels it. */
  after(ms: number, fn: () => void): () => void
  /** The time of day never steps either. */
  readonly steady?: true
}

export interface Random {
  /** Returns a float in [0, 1). */
  next(): number
  /** Returns 16 random bytes as 32 hex digits. */
  hex128(): string
}

export const iso = (ms: number): string => new Date(ms).toISOString()

/** Returns the value of a secret, synchronously where possible; null when there is no secret of that name. */
export type SecretSource = (name: string) => string | null | Promise<string | null>

/**
 * Sends a request to an address that the configuration allows, and follows up to `redirects` redirects (default 0). Has no timeout:
 * only `signal` ends the request. Rejects when there is no response; with an error named BLOCKED_REQUEST when the configuration
 * does not allow the address.
 */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>

export const BLOCKED_REQUEST = "BlockedRequest"

export interface FetchInit {
  method?: string
  headers?: { [name: string]: string }
  body?: string
  redirects?: number
  /** Called with every address before a request is sent to it; throws if it must not be. */
  check?(url: URL): void
  signal: AbortSignal
}

export type FetchResponse = Pick<Response, "status" | "ok" | "body" | "text"> & { headers: Pick<Headers, "get"> }
