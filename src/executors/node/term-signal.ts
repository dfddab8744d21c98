// The abort signal of the task that a worker process runs. It is created on first use, together with the handler of SIGTERM: a
// function that does not use it could not react to SIGTERM, which therefore ends the process at once.

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

  /** Restores the default of SIGTERM at the end of the task. */
  end(): void {
    process.off("SIGTERM", this.#onTerm)
  }

  readonly #onTerm = (): void => this.#abort?.abort(stopError())
}
