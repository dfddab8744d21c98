// Passes the cancel of a function to its steps. The steps that it awaits reject with a CancelledError; without one, the next step does.
// Steps that begin after that, in `finally` and `catch` blocks, run until the grace period is over.

import { CancelledError } from "../errors.ts"

export class Cancellation {
  readonly #stop: AbortSignal
  readonly #graceOver: AbortSignal
  #isReported = false

  constructor(stop: AbortSignal, graceOver: AbortSignal) {
    this.#stop = stop
    this.#graceOver = graceOver
  }

  get isRequested(): boolean {
    return isCancelled(this.#stop)
  }

  /** Signal for the code of a step that begins now. */
  get stepSignal(): AbortSignal {
    return this.isRequested ? this.#graceOver : this.#stop
  }

  /** Returns whether a step rejects. */
  concerns(beganBeforeCancel: boolean): boolean {
    return this.isRequested && (beganBeforeCancel || !this.#isReported)
  }

  error(options?: ErrorOptions): CancelledError {
    this.#isReported = true
    return new CancelledError("the function was cancelled", options)
  }
}

/**
 * Returns whether the signal of an attempt aborted because of a cancel. A function that is stopped for another reason goes on
 * elsewhere.
 */
export const isCancelled = (stop: AbortSignal): boolean => stop.aborted && stop.reason === "cancel"

/** Returns whether the attempt stops for another reason than a cancel. */
export const isStopped = (stop: AbortSignal): boolean => stop.aborted && !isCancelled(stop)
