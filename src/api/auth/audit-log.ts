// The audit log of changes: who, what, about what. Changes by administrators are in it before they are answered; the rest (runs and
// jobs, hundreds a second) is written in batches shortly after.

import type { Clock } from "../../core/model/ports.ts"
import type { AuditRow, KeyStore } from "../../store/contract/keys.ts"

export type AuditEntry = Omit<AuditRow, "seq" | "at">

const DELAY_MS = 100
const RETRY_MS = 1000
const BATCH = 500
/** While the store is away; older entries go first, and the log says so. */
const MAX_WAITING = 100_000

export class AuditLog {
  readonly #store: Pick<KeyStore, "appendAudit">
  readonly #clock: Clock
  readonly #lost: (count: number) => void
  #waiting: AuditEntry[] = []
  #cancel: (() => void) | null = null
  #flushing: Promise<void> = Promise.resolve()

  constructor(store: Pick<KeyStore, "appendAudit">, clock: Clock, lost: (count: number) => void) {
    this.#store = store
    this.#clock = clock
    this.#lost = lost
  }

  /** Resolves when the entry is committed. */
  write(entry: AuditEntry): Promise<void> {
    return this.#store.appendAudit([entry])
  }

  /** Written soon. */
  writeLater(entry: AuditEntry): void {
    this.#waiting.push(entry)
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift()
      this.#lost(1)
    }
    this.#arm(DELAY_MS)
  }

  async close(): Promise<void> {
    this.#cancel?.()
    this.#cancel = null
    await this.#flushing
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH)
      await this.#store.appendAudit(batch).catch(() => {
        this.#lost(batch.length + this.#waiting.length)
        this.#waiting = []
      })
    }
  }

  #arm(ms: number): void {
    this.#cancel ??= this.#clock.after(ms, () => {
      this.#flushing = this.#flush()
    })
  }

  async #flush(): Promise<void> {
    const batch = this.#waiting.splice(0, BATCH)
    let delay = DELAY_MS
    try {
      await this.#store.appendAudit(batch)
    } catch {
      this.#waiting = [...batch, ...this.#waiting]
      delay = RETRY_MS
    }
    this.#cancel = null
    if (this.#waiting.length > 0) this.#arm(delay)
  }
}
