// Waits for the end of jobs and runs. Commits of this process announce themselves, with the results of its jobs and functions; work that
// other processes run is checked again and again, because they do not announce every end.

import type { Clock } from "../../core/model/ports.ts"
import type { Output } from "../../core/model/change.ts"
import { isRunClosed, type RunStatus } from "../../core/model/status.ts"
import { isJobFinished } from "../../core/rules/jobs/jobs.ts"
import type { Engine } from "../../engine/engine.ts"
import type { EndResult } from "../../engine/loop/events.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { StoreEvent } from "../../store/contract/store.ts"
import { toMs } from "../duration.ts"
import { StoppedError, TimeoutError } from "../errors.ts"
import { checkNames, RESULT } from "../option-names.ts"
import type { ResultOptions } from "../orkable.ts"

const FIRST_POLL_MS = 10
const MAX_POLL_MS = 500
/** Time between two polls for each who waits: many who wait together read no more than a thousand times a second. */
const POLL_MS_PER_WAITER = 1

/** A success that this process has committed: nothing has to be read. */
export interface Announced {
  result: EndResult
}

export interface WaitOptions extends ResultOptions {
  /** From the method of that name, for work that this process has just created and runs itself. */
  maySkipFirstRead?: (() => boolean) | undefined
}

/** Someone who waits for a job or a run. */
interface Waiter {
  check(): void
  succeed(announced: Announced): void
  stop(): void
}

/** Returns the id of the job or run that has ended with an event; null: none has. */
const endedIn = ({ type, status, jobId, runId }: StoreEvent): string | null => {
  if (type === "job") return isJobFinished(status) ? jobId : null
  return type === "run" && isRunClosed(status as RunStatus) ? runId : null
}

/** Copies an output: the program may change what it gets. */
const copyOf = (output: Output): Output =>
  "inline" in output && (typeof output.inline !== "object" || output.inline === null) ? output : structuredClone(output)

export class Results {
  readonly #clock: Clock
  readonly #singleProcess: boolean
  /** By the id of the awaited job or run. */
  readonly #waiters = new Map<string, Set<Waiter>>()
  /** Number of ends that this process has announced. */
  #ends = 0
  #stopped = false

  /** `singleProcess`: no other process uses the database. */
  constructor(
    { store, clock, singleProcess = false }: { store: Pick<ServerStore, "onWake">; clock: Clock; singleProcess?: boolean },
    engine: Pick<Engine, "onEvent"> | null,
  ) {
    this.#clock = clock
    this.#singleProcess = singleProcess
    engine?.onEvent((event, result) => {
      const id = endedIn(event)
      if (id === null) return
      this.#ends++
      for (const waiter of this.#waiters.get(id) ?? []) {
        if (result === undefined) waiter.check()
        else waiter.succeed({ result: { ...result, output: copyOf(result.output) } })
      }
    })
    store.onWake(() => {
      for (const waiter of this.#all()) waiter.check()
    })
  }

  /** Returns the time until the next poll of a waiter. Polls fall on the same instants, so that runs are read together. */
  #untilPoll(pollMs: number): number {
    const now = this.#clock.monotonic()
    const due = now + Math.max(pollMs, POLL_MS_PER_WAITER * this.#waiters.size)
    return Math.ceil(due / FIRST_POLL_MS) * FIRST_POLL_MS - now
  }

  stop(): void {
    this.#stopped = true
    for (const waiter of this.#all()) waiter.stop()
  }

  #all(): Waiter[] {
    return [...this.#waiters.values()].flatMap((waiters) => [...waiters])
  }

  /** Checks a job that has ended without a commit of the engine. */
  recheck(id: string): void {
    this.#ends++
    for (const waiter of this.#waiters.get(id) ?? []) waiter.check()
  }

  /**
   * Returns a function for work that is unfinished now: true while no job or run has ended in this process since this call, so that `wait`
   * may start with a poll, which finds an end in another process. False in a single process, which does not poll.
   */
  maySkipFirstRead(): () => boolean {
    const ends = this.#ends
    return () => ends === this.#ends && !this.#singleProcess
  }

  /** Calls `read` until it returns a value, or this process announces the success: at once, unless the first read may be skipped. */
  async wait<T>(
    id: string,
    read: () => Promise<T | null>,
    { maySkipFirstRead, ...options }: WaitOptions = {},
  ): Promise<T | Announced> {
    checkNames(options, RESULT, "result")
    const { timeout, signal } = options
    signal?.throwIfAborted()
    if (this.#stopped) throw new StoppedError()
    const timeoutMs = timeout === undefined ? null : toMs(timeout, "timeout")
    return await new Promise<T | Announced>((resolve, reject) => {
      let reading = false
      let again = false
      let ended = false
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
        if (again && !ended) {
          again = false
          void check()
        }
      }
      const poll = (): void => {
        cancelPoll = this.#clock.after(this.#untilPoll(pollMs), () => {
          pollMs = Math.min(2 * pollMs, MAX_POLL_MS)
          poll()
          void check()
        })
      }
      const onAbort = (): void => end(() => reject(signal!.reason as Error))
      const cancelTimeout =
        timeoutMs === null
          ? () => {}
          : this.#clock.after(timeoutMs, () =>
              end(() => reject(new TimeoutError(`${id} has not ended within ${timeoutMs} ms`))),
            )
      const waiter: Waiter = {
        check: () => void check(),
        succeed: (announced) => end(() => resolve(announced)),
        stop: () => end(() => reject(new StoppedError())),
      }
      const end = (settle: () => void): void => {
        ended = true
        cancelPoll()
        cancelTimeout()
        signal?.removeEventListener("abort", onAbort)
        const waiters = this.#waiters.get(id)
        waiters?.delete(waiter)
        if (waiters?.size === 0) this.#waiters.delete(id)
        settle()
      }
      signal?.addEventListener("abort", onAbort, { once: true })
      const waiters = this.#waiters.get(id) ?? new Set()
      this.#waiters.set(id, waiters.add(waiter))
      if (!this.#singleProcess) poll()
      // It may have ended before.
      if (maySkipFirstRead?.() !== true) void check()
    })
  }
}
