// Waits for the end of jobs and runs. Commits of this process announce themselves; work that other processes run is checked again and
// again, because they do not announce every end.

import type { Clock } from "../core/model/ports.ts"
import type { Engine } from "../engine/engine.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import { toMs } from "./duration.ts"
import { StoppedError, TimeoutError } from "./errors.ts"
import type { ResultOptions } from "./orkable.ts"

const FIRST_POLL_MS = 10
const MAX_POLL_MS = 500

export class Results {
  readonly #clock: Clock
  /** Checks of the awaited jobs and runs, by id. */
  readonly #checks = new Map<string, Set<() => void>>()
  readonly #stopped = new AbortController()

  constructor(store: Pick<ServerStore, "onWake">, clock: Clock, engine: Pick<Engine, "onEvent"> | null) {
    this.#clock = clock
    engine?.onEvent((event) => {
      if (this.#checks.size === 0) return
      const id = event.type === "job" ? event.jobId : event.type === "run" ? event.runId : undefined
      if (id !== undefined) for (const check of this.#checks.get(id) ?? []) check()
    })
    store.onWake(() => {
      for (const checks of this.#checks.values()) for (const check of checks) check()
    })
  }

  stop(): void {
    this.#stopped.abort()
  }

  /** Calls `read` until it returns a value. */
  async wait<T>(id: string, read: () => Promise<T | null>, { timeout, signal }: ResultOptions = {}): Promise<T> {
    signal?.throwIfAborted()
    const timeoutMs = timeout === undefined ? null : toMs(timeout, "timeout")
    const found = await read()
    if (found !== null) return found
    return await new Promise<T>((resolve, reject) => {
      let reading = false
      let again = false
      let pollMs = FIRST_POLL_MS
      let cancelPoll = (): void => {}
      const check = async (): Promise<void> => {
        if (reading) {
          again = true
          return
        }
        reading = true
        try {
          const value = await read()
          if (value !== null) end(() => resolve(value))
        } catch (error) {
          end(() => reject(error instanceof Error ? error : new Error(String(error))))
        }
        reading = false
        if (again) {
          again = false
          void check()
        }
      }
      const poll = (): void => {
        cancelPoll = this.#clock.after(pollMs, () => {
          pollMs = Math.min(2 * pollMs, MAX_POLL_MS)
          poll()
          void check()
        })
      }
      const onStop = (): void => end(() => reject(new StoppedError()))
      const onAbort = (): void => end(() => reject(signal!.reason as Error))
      const cancelTimeout =
        timeoutMs === null
          ? () => {}
          : this.#clock.after(timeoutMs, () =>
              end(() => reject(new TimeoutError(`${id} has not ended within ${timeoutMs} ms`))),
            )
      const listener = (): void => void check()
      const end = (settle: () => void): void => {
        cancelPoll()
        cancelTimeout()
        signal?.removeEventListener("abort", onAbort)
        this.#stopped.signal.removeEventListener("abort", onStop)
        const checks = this.#checks.get(id)
        checks?.delete(listener)
        if (checks?.size === 0) this.#checks.delete(id)
        settle()
      }
      signal?.addEventListener("abort", onAbort, { once: true })
      this.#stopped.signal.addEventListener("abort", onStop, { once: true })
      const checks = this.#checks.get(id) ?? new Set()
      this.#checks.set(id, checks.add(listener))
      poll()
      void check()
    })
  }
}
