// Errors by which a function controls its retries. They are recognised by a mark and not by their class, because a function may
// have loaded another copy of this file.

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
export class TerminalError extends Error {
  static {
    this.prototype.name = "TerminalError"
  }

  constructor(message?: string, options?: ErrorOptions) {
    super(message, options)
    mark(this, { terminal: true })
  }
}

/** Delays the next retry, if one is left, by at least this number of seconds. */
export class RetryAfter extends Error {
  static {
    this.prototype.name = "RetryAfter"
  }

  constructor(seconds: number, message = `asks for a retry after ${seconds} s`, options?: ErrorOptions) {
    super(message, options)
    if (!Number.isFinite(seconds) || seconds < 0) throw new RangeError(`RetryAfter takes seconds from 0, not ${seconds}`)
    mark(this, { retryAfterMs: Math.round(seconds * 1000) })
  }
}

export const markOf = (error: unknown): ErrorMark =>
  typeof error === "object" && error !== null && MARK in error ? (error[MARK] as ErrorMark) : {}
