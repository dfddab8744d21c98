// Whether workers that tasks were pushed to still have them. Each that has any is asked every few seconds, all on one timer; what it does
// not know any more is lost, and so is everything of one that has not answered for a lease.

import type { Clock } from "../core/model/ports.ts"

export interface PushWatchOptions {
  clock: Clock
  leaseMs: number
  /** Which of the tokens the worker does not know; null: it did not answer. Never rejects, and comes to an end. */
  ask(worker: string, tokens: string[]): Promise<string[] | null>
}

interface Watched {
  /** When something was sent to it that it answered. */
  heardAt: number
  asking: boolean
  /** By token: tells why it is lost. */
  readonly held: Map<string, (why: string) => void>
}

const ASKS_PER_LEASE = 5

export class PushWatch {
  readonly #options: PushWatchOptions
  readonly #workers = new Map<string, Watched>()
  #cancel: (() => void) | null = null

  constructor(options: PushWatchOptions) {
    this.#options = options
  }

  get #everyMs(): number {
    return this.#options.leaseMs / ASKS_PER_LEASE
  }

  /** The worker has just taken it. Gives a function that ends the watch. */
  add(worker: string, token: string, lost: (why: string) => void): () => void {
    const now = this.#options.clock.now()
    const watched = this.#workers.get(worker) ?? { heardAt: now, asking: false, held: new Map() }
    this.#workers.set(worker, watched)
    watched.heardAt = now
    watched.held.set(token, lost)
    this.#plan()
    return () => {
      watched.held.delete(token)
      if (watched.held.size > 0 || this.#workers.get(worker) !== watched) return
      this.#workers.delete(worker)
      if (this.#workers.size > 0) return
      this.#cancel?.()
      this.#cancel = null
    }
  }

  /** The next round, or sooner when a lease runs out. */
  #plan(): void {
    if (this.#cancel !== null || this.#workers.size === 0) return
    const { clock, leaseMs } = this.#options
    const ends = [...this.#workers.values()].map(({ heardAt }) => heardAt + leaseMs - clock.now())
    this.#cancel = clock.after(Math.max(1, Math.min(this.#everyMs, ...ends)), () => {
      this.#cancel = null
      this.#round()
      this.#plan()
    })
  }

  #round(): void {
    const { clock, leaseMs } = this.#options
    for (const [worker, watched] of this.#workers) {
      if (clock.now() - watched.heardAt >= leaseMs) {
        this.#workers.delete(worker)
        const why = `lost: the worker ${worker} has not answered for ${leaseMs / 1000} s`
        for (const lost of watched.held.values()) lost(why)
      } else if (!watched.asking) void this.#ask(worker, watched)
    }
  }

  async #ask(worker: string, watched: Watched): Promise<void> {
    watched.asking = true
    const sentAt = this.#options.clock.now()
    const unknown = await this.#options.ask(worker, [...watched.held.keys()])
    watched.asking = false
    if (unknown === null) return
    watched.heardAt = Math.max(watched.heardAt, sentAt)
    const why = `lost: the worker ${worker} does not have it any more; it was started anew, or could not tell the result`
    for (const token of unknown) watched.held.get(token)?.(why)
  }
}
