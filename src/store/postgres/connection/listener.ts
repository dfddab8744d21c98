// Wakes the stores on one database: a transaction that may give others work sends NOTIFY, and each store listens on a connection of
// its own, which it reopens when it breaks.

import { Connection, SILENCE_MS, type Target } from "./connection.ts"
import { statement } from "./statement.ts"

/** The payload `sender` identifies the store that notifies: its own notifications do not wake it. */
export const WAKE_STORES = statement("notify", "SELECT pg_notify(:channel, :sender)")

/** Finds a connection that died silently: its reply is missed (`Connection`). */
const PING = statement("listen_ping", "SELECT 1")

/** Time between two looks for work behind a pooler. */
const POLL_MS = 500
const FIRST_RETRY_MS = 100
const MAX_RETRY_MS = 1_000

export class Listener {
  readonly #target: Target
  readonly #channel: string
  readonly #self: string
  readonly #wakeListeners: (() => void)[] = []
  #connection: Connection | null = null
  #timer: NodeJS.Timeout | undefined
  #pings: NodeJS.Timeout | undefined
  #closed = false
  /** Notifications may have been lost: wakes the listeners once the connection is back. */
  #missed = false
  #opening: Promise<void> | null = null

  constructor(target: Target, channel: string, self: string) {
    this.#target = target
    this.#channel = channel
    this.#self = self
  }

  /** Resolves when the connection listens, or when the first try failed and retries follow. */
  onWake(wake: () => void): Promise<void> {
    this.#wakeListeners.push(wake)
    this.#opening ??= this.#open(FIRST_RETRY_MS)
    return this.#opening
  }

  async #open(retryMs: number): Promise<void> {
    try {
      const connection = await Connection.open(this.#target, { application: "ork listen" })
      if (connection.pooled) return await this.#poll(connection)
      connection.onNotification((sender) => {
        if (sender !== this.#self) this.#wake()
      })
      connection.onBroken(() => this.#reopen(FIRST_RETRY_MS))
      this.#connection = connection
      if (this.#closed) return await connection.close()
      await connection.script(`LISTEN "${this.#channel.replaceAll('"', '""')}"`)
    } catch {
      this.#reopen(retryMs)
      return
    }
    clearInterval(this.#pings)
    this.#pings = setInterval(() => void this.#connection?.run(PING), 2 * (this.#target.silenceMs ?? SILENCE_MS)).unref()
    if (this.#missed) this.#wake()
    this.#missed = false
  }

  /** Replaces notifications, which reach any client of the pooler that has the session. */
  async #poll(connection: Connection): Promise<void> {
    await connection.close()
    if (!this.#closed) this.#pings = setInterval(() => this.#wake(), POLL_MS).unref()
  }

  #reopen(waitMs: number): void {
    if (this.#closed) return
    this.#missed = true
    clearTimeout(this.#timer)
    clearInterval(this.#pings)
    this.#timer = setTimeout(() => void this.#open(Math.min(waitMs * 2, MAX_RETRY_MS)), waitMs)
    this.#timer.unref()
  }

  #wake(): void {
    for (const wake of this.#wakeListeners) wake()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    clearInterval(this.#pings)
    await this.#connection?.close()
  }
}
