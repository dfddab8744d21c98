// Reads the status.json of every attempt that runs in `ork exec`, with one timer and a few concurrent reads for all attempts on
// one object store. An attempt is read every second at first, then less often down to every five seconds; when reads are slow,
// the next ones wait longer.

import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { asError } from "../../core/values/error-message.ts"

export interface StatusListener {
  readonly key: string
  /** Receives the object's content, null when it does not exist, or the error of a read. */
  onStatus(content: Uint8Array | null | Error): void
}

const MIN_INTERVAL_MS = 1000
const MAX_INTERVAL_MS = 5000
const GROWTH = 1.25
const MAX_CONCURRENT_READS = 16
/** Reads take at most one part in this of the time. */
const MAX_BUSY_SHARE = 4

interface Entry {
  dueAt: number
  interval: number
}

const pollers = new WeakMap<ObjectStore, StatusPoller>()

/** Returns the poller that all attempts on an object store share. */
export const statusPollerOf = (objects: ObjectStore, clock: Clock): StatusPoller => {
  const poller = pollers.get(objects) ?? new StatusPoller(objects, clock)
  pollers.set(objects, poller)
  return poller
}

class StatusPoller {
  readonly #objects: ObjectStore
  readonly #clock: Clock
  readonly #entries = new Map<StatusListener, Entry>()
  #timer: { at: number; cancel: () => void } | null = null
  #polling = false
  #pausedUntil = 0

  constructor(objects: ObjectStore, clock: Clock) {
    this.#objects = objects
    this.#clock = clock
  }

  add(listener: StatusListener): void {
    this.#entries.set(listener, { dueAt: this.#clock.monotonic() + MIN_INTERVAL_MS, interval: MIN_INTERVAL_MS })
    this.#schedule()
  }

  remove(listener: StatusListener): void {
    this.#entries.delete(listener)
    if (this.#entries.size > 0) return
    this.#timer?.cancel()
    this.#timer = null
  }

  /** Reads the status at once: something has happened. */
  pollNow(listener: StatusListener): void {
    const entry = this.#entries.get(listener)
    if (entry === undefined) return
    entry.dueAt = 0
    entry.interval = MIN_INTERVAL_MS
    this.#schedule()
  }

  #schedule(): void {
    if (this.#polling || this.#entries.size === 0) return
    let next = Number.POSITIVE_INFINITY
    for (const { dueAt } of this.#entries.values()) next = Math.min(next, dueAt === 0 ? 0 : Math.max(dueAt, this.#pausedUntil))
    if (this.#timer !== null && this.#timer.at <= next) return
    this.#timer?.cancel()
    const cancel = this.#clock.after(Math.max(0, next - this.#clock.monotonic()), () => {
      this.#timer = null
      void this.#poll()
    })
    this.#timer = { at: next, cancel }
  }

  async #poll(): Promise<void> {
    this.#polling = true
    const began = this.#clock.monotonic()
    const due = [...this.#entries].filter(([, entry]) => entry.dueAt <= began)
    const next = due[Symbol.iterator]()
    const readAll = async (): Promise<void> => {
      for (const [listener, entry] of next) {
        entry.interval = Math.min(MAX_INTERVAL_MS, entry.interval * GROWTH)
        entry.dueAt = this.#clock.monotonic() + entry.interval
        listener.onStatus(await this.#objects.get(listener.key).catch(asError))
      }
    }
    await Promise.all(Array.from({ length: Math.min(MAX_CONCURRENT_READS, due.length) }, readAll))
    const now = this.#clock.monotonic()
    this.#pausedUntil = now + (now - began) * (MAX_BUSY_SHARE - 1)
    this.#polling = false
    this.#schedule()
  }
}
