// Errors that say more than that something failed. They are told by a mark, not by their class: a function may have loaded another
// copy of this file.

const MARK = Symbol.for("ork.error")

/** Not among what is shown of an error. */
const mark = (error: Error, value: ErrorMark): void => {
  Object.defineProperty(error, MARK, { value })
}

export interface ErrorMark {
  terminal?: true
  retryAfterMs?: number
}

/** Trying again cannot help: the task fails at once, whatever retries it has left. */
export class TerminalError extends Error {
  static {
    this.prototype.name = "TerminalError"
  }

  constructor(message?: string, options?: ErrorOptions) {
    super(message, options)
    mark(this, { terminal: true })
  }
}

/** Try again, if a retry is left, but not before so many seconds. */
export class RetryAfter extends Error {
  static {
    this.prototype.name = "RetryAfter"
  }

  constructor(seconds: number, message = `asks to be tried again after ${seconds} s`, options?: ErrorOptions) {
    super(message, options)
    if (!Number.isFinite(seconds) || seconds < 0) throw new RangeError(`RetryAfter takes seconds from 0, not ${seconds}`)
    mark(this, { retryAfterMs: Math.round(seconds * 1000) })
  }
}

export const markOf = (error: unknown): ErrorMark =>
  typeof error === "object" && error !== null && MARK in error ? (error[MARK] as ErrorMark) : {}
