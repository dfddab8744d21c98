// Rates of queues as token buckets: at most `limit` starts at once, and `limit` per period after that.

export interface Rate {
  limit: number
  periodMs: number
}

/** Tokens after this long, the bucket's size at most. A clock that went back gives none. */
export const refill = (rate: Rate, tokens: number, passedMs: number): number =>
  Math.min(rate.limit, tokens + (Math.max(0, passedMs) * rate.limit) / rate.periodMs)

/** Milliseconds until there is a whole token. */
export const tokenWaitMs = (rate: Rate, tokens: number): number =>
  Math.max(0, Math.ceil(((1 - tokens) * rate.periodMs) / rate.limit))
