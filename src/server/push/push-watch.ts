// Watches tasks that were pushed to workers. Each worker with tasks is asked every few seconds, all on one timer. A task is lost when its
// worker no longer knows it, or has not replied for a lease. A worker that cannot be asked is not watched.

import type { Clock } from "../../core/model/ports.ts"

/** The reply of a worker that does not know the question. */
export const NOT_SUPPORTED = Symbol("the worker cannot be asked")

export interface PushWatchOptions {
  clock: Clock
  leaseMs: number
  /** Returns the tokens that the worker does not know; null without a reply. Never rejects, and has a timeout. */
  ask(worker: string, tokens: string[]): Promise<string[] | typeof NOT_SUPPORTED | null>
}

interface WatchedWorker {
  /** Time of the latest request that the worker replied to. */
  lastReplyAt: number
  asking: boolean
  unsupported: boolean
  /** Called with the reason when a task is lost, by token. */
  readonly tasks: Map<string, (reason: string) => void>
}

const REQUESTS_PER_LEASE = 5

export class PushWatch {
  readonly #options: PushWatchOptions
  readonly #workers = new Map<string, WatchedWorker>()
  #cancel: (() => void) | null = null

  constructor(options: PushWatchOptions) {
    this.#options = options
  }

  get #intervalMs(): number {
    return this.#options.leaseMs / REQUESTS_PER_LEASE
  }

  /** Watches a task that a worker has just accepted. The returned function ends the watch. */
  add(worker: string, token: string, lost: (reason: string) => void): () => void {
    const now = this.#options.clock.monotonic()
    const watched = this.#workers.get(worker) ?? { lastReplyAt: now, asking: false, unsupported: false, tasks: new Map() }
    this.#workers.set(worker, watched)
    watched.lastReplyAt = now
    watched.tasks.set(token, lost)
    this.#schedule()
    return () => {
      watched.tasks.delete(token)
      if (watched.tasks.size > 0 || this.#workers.get(worker) !== watched) return
      this.#workers.delete(worker)
      if (this.#workers.size > 0) return
      this.#cancel?.()
      this.#cancel = null
    }
  }

  /** Schedules the next check, earlier than the interval when a lease expires. */
  #schedule(): void {
    const askable = [...this.#workers.values()].filter(({ unsupported }) => !unsupported)
    if (this.#cancel !== null || askable.length === 0) return
    const { clock, leaseMs } = this.#options
    const expiries = askable.map(({ lastReplyAt }) => lastReplyAt + leaseMs - clock.monotonic())
    this.#cancel = clock.after(Math.max(1, Math.min(this.#intervalMs, ...expiries)), () => {
      this.#cancel = null
      this.#checkAll()
      this.#schedule()
    })
  }

  #checkAll(): void {
    const { clock, leaseMs } = this.#options
    for (const [worker, watched] of this.#workers) {
      if (watched.unsupported) continue
      if (clock.monotonic() - watched.lastReplyAt >= leaseMs) {
        this.#workers.delete(worker)
        const reason = `lost: the worker ${worker} has not answered for ${leaseMs / 1000} s`
        for (const lost of watched.tasks.values()) lost(reason)
      } else if (!watched.asking) void this.#ask(worker, watched)
    }
  }

  async #ask(worker: string, watched: WatchedWorker): Promise<void> {
    watched.asking = true
    const sentAt = this.#options.clock.monotonic()
    const unknown = await this.#options.ask(worker, [...watched.tasks.keys()])
    watched.asking = false
    if (unknown === NOT_SUPPORTED) watched.unsupported = true
    if (unknown === null || unknown === NOT_SUPPORTED) return
    watched.lastReplyAt = Math.max(watched.lastReplyAt, sentAt)
    const reason = `lost: the worker ${worker} no longer has the task; it was restarted, or could not report the result`
    for (const token of unknown) watched.tasks.get(token)?.(reason)
  }
}
