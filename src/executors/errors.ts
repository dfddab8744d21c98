// Errors by which a function controls its retries. They are recognised by a mark and not by their class, because a function may
// have loaded another copy of this file.

import { parseDuration } from "../core/values/quantities.ts"

const MARK = Symbol.for("ork.error")

/** Sets the mark as a property that is not enumerable, so that it is not printed. */
const mark = (error: Error, value: ErrorMark): void => {
  Object.defineProperty(error, MARK, { value })
}

export interface ErrorMark {
  terminal?: true
  retryAfterMs?: number
}

/** Fails the task at once, whatever retries it has left: a retry cannot help. */
export class FatalError extends Error {
  static {
    this.prototype.name = "FatalError"
  }

  constructor(message?: string, options?: ErrorOptions) {
    super(message, options)
    mark(this, { terminal: true })
  }
}

/** Delays the next retry, if one is left, by at least this time: milliseconds, or a text such as "30s". */
export class RetryLater extends Error {
  static {
    this.prototype.name = "RetryLater"
  }

  constructor(
    delay: number | string,
    message = `asks for a retry after ${typeof delay === "number" ? `${delay} ms` : delay}`,
    options?: ErrorOptions,
  ) {
    super(message, options)
    const ms = typeof delay === "number" ? delay : parseDuration(delay)
    if (ms === null || !Number.isFinite(ms) || ms < 0) {
      throw new RangeError(`RetryLater takes milliseconds or a text such as "30s", not ${JSON.stringify(delay)}`)
    }
    mark(this, { retryAfterMs: Math.round(ms) })
  }
}

export const markOf = (error: unknown): ErrorMark =>
  typeof error === "object" && error !== null && MARK in error ? (error[MARK] as ErrorMark) : {}
