// The signal of the one task that a worker process runs. It is made when it is asked for, and with it the handler of SIGTERM: a
// function that never asked could not come to an end by it, so SIGTERM ends its process at once.

import { stopError } from "./context.ts"

export class TermSignal {
  #abort: AbortController | null = null

  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new AbortController()
      process.on("SIGTERM", this.#onTerm)
    }
    return this.#abort.signal
  }

  /** The task has ended. */
  end(): void {
    process.off("SIGTERM", this.#onTerm)
  }

  readonly #onTerm = (): void => this.#abort?.abort(stopError())
}
