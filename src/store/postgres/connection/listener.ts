// Waking each other: a store that commits something which another may take says so in the same transaction (NOTIFY); each
// listens on a connection of its own, and comes back by itself when that one breaks.

import { Connection, statement, type Target } from "./connection.ts"

/** $1 the channel, $2 who says it: its own notes wake nobody. */
export const NOTIFY = statement("notify", "SELECT pg_notify($1, $2)")

const FIRST_WAIT_MS = 100
const LONGEST_WAIT_MS = 5_000

export class Listener {
  readonly #target: Target
  readonly #channel: string
  readonly #self: string
  readonly #wakes: (() => void)[] = []
  readonly #notes: (() => void)[] = []
  #session: Connection | null = null
  #timer: NodeJS.Timeout | undefined
  #closed = false
  #listening = false
  #missed = false
  #opening: Promise<void> | null = null

  constructor(target: Target, channel: string, self: string) {
    this.#target = target
    this.#channel = channel
    this.#self = self
  }

  /** Notes of others arrive now. */
  get listening(): boolean {
    return this.#listening && this.#session?.broken === false
  }

  /** Called before those who wake. */
  onNotification(note: () => void): void {
    this.#notes.push(note)
  }

  /** Resolves when it listens, or when the first try failed and more will follow. */
  onWake(wake: () => void): Promise<void> {
    this.#wakes.push(wake)
    this.#opening ??= this.#open(FIRST_WAIT_MS)
    return this.#opening
  }

  async #open(wait: number): Promise<void> {
    try {
      const session = await Connection.open(this.#target, "ork listen")
      session.onNotification((who) => {
        if (who !== this.#self) this.#wake()
      })
      session.onBroken(() => this.#again(FIRST_WAIT_MS))
      this.#session = session
      if (this.#closed) return await session.close()
      await session.script(`LISTEN "${this.#channel.replaceAll('"', '""')}"`)
    } catch {
      this.#again(wait)
      return
    }
    this.#listening = true
    for (const note of this.#notes) note()
    if (this.#missed) this.#wake()
    this.#missed = false
  }

  /** What was said meanwhile is lost, so being back wakes everybody. */
  #again(wait: number): void {
    if (this.#closed) return
    this.#missed = true
    this.#listening = false
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#open(Math.min(wait * 2, LONGEST_WAIT_MS)), wait)
    this.#timer.unref()
  }

  #wake(): void {
    for (const wake of [...this.#notes, ...this.#wakes]) wake()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#session?.close()
  }
}
