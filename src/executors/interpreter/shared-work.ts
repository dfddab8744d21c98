// Runs a piece of work once for everybody who waits for it at the same time, and stops it when nobody waits any more.

interface RunningWork<T> {
  result: Promise<T>
  stop: AbortController
  waiting: number
}

export class SharedWork<T> {
  readonly #running = new Map<string, RunningWork<T>>()

  /** Resolves with the result. Rejects when `signal` aborts; the last one who waits is rejected after the work has ended. */
  async run(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    signal.throwIfAborted()
    const running = this.#running.get(key) ?? this.#start(key, work)
    running.waiting += 1
    const left = Promise.withResolvers<never>()
    const leave = (): void => {
      running.waiting -= 1
      if (running.waiting > 0) return left.reject(signal.reason)
      this.#forget(key, running)
      running.stop.abort(signal.reason)
    }
    signal.addEventListener("abort", leave, { once: true })
    try {
      return await Promise.race([running.result, left.promise])
    } finally {
      signal.removeEventListener("abort", leave)
    }
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<T>): RunningWork<T> {
    const stop = new AbortController()
    const running = { result: work(stop.signal), stop, waiting: 0 }
    this.#running.set(key, running)
    const end = (): void => this.#forget(key, running)
    running.result.then(end, end)
    return running
  }

  #forget(key: string, running: RunningWork<T>): void {
    if (this.#running.get(key) === running) this.#running.delete(key)
  }
}
