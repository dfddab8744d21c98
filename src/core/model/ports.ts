// What the core and the engine take from the world, so that a simulation can give them another one.

/** Milliseconds since the epoch, and timers on the same clock. */
export interface Clock {
  now(): number
  /** Calls `fn` once after `ms`; the returned function cancels it. */
  after(ms: number, fn: () => void): () => void
}

export interface Random {
  /** A float in [0, 1). */
  next(): number
  /** 16 random bytes as 32 hex digits. */
  hex128(): string
}

export const iso = (ms: number): string => new Date(ms).toISOString()

/** The value of a secret, at once where that is possible; null: there is none of that name. */
export type SecretSource = (name: string) => string | null | Promise<string | null>

/**
 * Sends a request to where the configuration lets one go, and follows up to `redirects` redirects (none unless said). Only `signal`
 * ends it: nothing else limits how long an answer may take. Rejects when there is no answer; with an error of the name
 * REFUSED_REQUEST when the configuration does not let it go there.
 */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>

export const BLOCKED_REQUEST = "BlockedRequest"

export interface FetchInit {
  method?: string
  headers?: { [name: string]: string }
  body?: string
  redirects?: number
  signal: AbortSignal
}

export type FetchResponse = Pick<Response, "status" | "ok" | "body" | "text"> & { headers: Pick<Headers, "get"> }
