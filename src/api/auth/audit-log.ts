// The audit log beyond the entries that are committed with their change: changes that the loop commits, and refusals, which are written
// in batches shortly afterwards. An address gets a limited number of refusals a minute, so that it cannot fill the log.

import type { Clock } from "../../core/model/ports.ts"
import type { KeyStore, NewAuditEntry } from "../../store/contract/keys.ts"
import { Throttle } from "./throttle.ts"

const REFUSALS_PER_MINUTE = 60

const DELAY_MS = 100
const RETRY_MS = 1000
const BATCH = 500
/** Entries kept in memory while the store is unavailable. The oldest are dropped first. */
const MAX_PENDING = 100_000

export class AuditLog {
  readonly #store: Pick<KeyStore, "appendAudit">
  readonly #clock: Clock
  readonly #onLost: (count: number) => void
  readonly #throttle: Throttle
  #pending: NewAuditEntry[] = []
  #cancelFlush: (() => void) | null = null
  #flushing: Promise<void> = Promise.resolve()

  constructor(store: Pick<KeyStore, "appendAudit">, clock: Clock, onLost: (count: number) => void) {
    this.#store = store
    this.#clock = clock
    this.#onLost = onLost
    this.#throttle = new Throttle(REFUSALS_PER_MINUTE, () => clock.monotonic())
  }

  /** Resolves when the entry is committed. */
  write(entry: NewAuditEntry): Promise<void> {
    return this.#store.appendAudit([entry])
  }

  /** Adds a refusal to the next batch. */
  refused(entry: NewAuditEntry): void {
    const address = entry.address ?? ""
    if (this.#throttle.secondsToWait(address) > 0) return
    this.#throttle.recordFailure(address)
    this.#pending.push(entry)
    if (this.#pending.length > MAX_PENDING) {
      this.#pending.shift()
      this.#onLost(1)
    }
    this.#scheduleFlush(DELAY_MS)
  }

  /** Writes all pending entries. Drops them if the store fails. */
  async close(): Promise<void> {
    this.#cancelFlush?.()
    this.#cancelFlush = null
    await this.#flushing
    while (this.#pending.length > 0) {
      const batch = this.#pending.splice(0, BATCH)
      await this.#store.appendAudit(batch).catch(() => {
        this.#onLost(batch.length + this.#pending.length)
        this.#pending = []
      })
    }
  }

  #scheduleFlush(ms: number): void {
    this.#cancelFlush ??= this.#clock.after(ms, () => {
      this.#flushing = this.#flush()
    })
  }

  async #flush(): Promise<void> {
    const batch = this.#pending.splice(0, BATCH)
    let delay = DELAY_MS
    try {
      await this.#store.appendAudit(batch)
    } catch {
      this.#pending = [...batch, ...this.#pending]
      delay = RETRY_MS
    }
    this.#cancelFlush = null
    if (this.#pending.length > 0) this.#scheduleFlush(delay)
  }
}
