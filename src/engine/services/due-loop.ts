// The base of services that handle due work in passes. A pass runs when the service is woken, when the next work is due, and a second after
// something was committed that may have made work due. One pass runs at a time; a wake-up during a pass starts another one.

import type { Logger } from "../ports.ts"
import type { Clock } from "../../core/model/ports.ts"
import { longestSleepMs } from "../../core/time/longest-sleep.ts"
import type { Store } from "../../store/contract/store.ts"

const RETRY_MS = 1000
/** Keeps a timer that fires a little early from spinning. */
const MIN_SLEEP_MS = 5
/** Processes commit hundreds of times a second, mostly without new work. */
const WAKE_LATER_MS = 1000

export interface DueLoopOptions {
  clock: Clock
  log: Logger
  store: Pick<Store, "onWake">
}

export abstract class DueLoop {
  readonly #options: DueLoopOptions
  readonly #failureMessage: string
  readonly #stop = new AbortController()
  #started = false
  #passWanted = false
  #running: Promise<void> | null = null
  #cancelDue: (() => void) | null = null
  #cancelLater: (() => void) | null = null

  /** `failureMessage`: the log message for a failed pass, which is repeated. */
  constructor(options: DueLoopOptions, failureMessage: string) {
    this.#options = options
    this.#failureMessage = failureMessage
  }

  /** Handles all due work. Returns the milliseconds until more is due; null: nothing is planned. */
  protected abstract pass(signal: AbortSignal): Promise<number | null>

  start(): void {
    this.#started = true
    this.#options.store.onWake(() => this.wakeLater())
    this.wake()
  }

  /** Aborts the signal of the pass that is running, and resolves when it has ended. */
  async stop(): Promise<void> {
    this.#stop.abort()
    this.#cancelDue?.()
    this.#cancelLater?.()
    await this.#running
  }

  /** Starts a pass. Called when there may be new work. */
  wake(): void {
    if (!this.#started || this.#stop.signal.aborted) return
    this.#passWanted = true
    this.#running ??= this.#run()
  }

  /** Starts a pass within a second; several calls until then start one. */
  wakeLater(): void {
    if (!this.#started || this.#stop.signal.aborted) return
    this.#cancelLater ??= this.#options.clock.after(WAKE_LATER_MS, () => {
      this.#cancelLater = null
      this.wake()
    })
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#options
    const { signal } = this.#stop
    let dueMs: number | null = null
    try {
      while (this.#passWanted && !signal.aborted) {
        this.#passWanted = false
        dueMs = await this.pass(signal)
      }
    } catch (error) {
      log.warn({ error: String(error) }, this.#failureMessage)
      dueMs = RETRY_MS
    }
    this.#running = null
    this.#cancelDue?.()
    if (dueMs === null || signal.aborted) this.#cancelDue = null
    else this.#cancelDue = clock.after(Math.min(Math.max(dueMs, MIN_SLEEP_MS), longestSleepMs(clock)), () => this.wake())
  }
}
