// Starts that the settings of a queue allow: none while it is paused, as many as its limit has free slots, and as many as its rate
// has tokens. The rate is a token bucket: at most `limit` starts at once, then `limit` per period. Both stores keep the slots and
// tokens in rows, lock them for a claim and write them back with it.

export interface Rate {
  limit: number
  periodMs: number
}

export interface TokenBucket extends Rate {
  tokens: number
}

export interface QueueBudget {
  paused: boolean
  /** null: the queue has no rate. */
  bucket: TokenBucket | null
}

/**
 * Returns the tokens after this time, at most the size of the bucket. A clock that went back adds none. Postgres also evaluates this rule
 * and `availableStarts` in SQL, to find the lanes of a claim (store/postgres/claim/queue-budget.ts).
 */
export const refill = (rate: Rate, tokens: number, passedMs: number): number =>
  Math.min(rate.limit, tokens + (Math.max(0, passedMs) * rate.limit) / rate.periodMs)

/** Returns the bucket of a queue's rate, refilled for the time since `tokens` was stored; null without a rate. */
export const openBucket = (
  { limit, periodMs }: { limit: number | null; periodMs: number | null },
  tokens: number,
  passedMs: number,
): TokenBucket | null =>
  limit === null || periodMs === null ? null : { limit, periodMs, tokens: refill({ limit, periodMs }, tokens, passedMs) }

/** Returns how many rows of the queue may start now. `slots`: free slots of its limit, infinite without one. */
export const availableStarts = ({ paused, bucket }: QueueBudget, slots: number): number => {
  if (paused) return 0
  return bucket === null ? slots : Math.min(slots, Math.floor(bucket.tokens))
}

/** Returns the milliseconds until a bucket holds a whole token. */
export const tokenWaitMs = (rate: Rate, tokens: number): number =>
  Math.max(0, Math.ceil(((1 - tokens) * rate.periodMs) / rate.limit))

/** Returns the milliseconds until the queue's rate allows a start, or null when something else holds it back. */
export const nextStartMs = ({ paused, bucket }: QueueBudget): number | null =>
  paused || bucket === null || bucket.tokens >= 1 ? null : tokenWaitMs(bucket, bucket.tokens)
