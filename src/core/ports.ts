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
