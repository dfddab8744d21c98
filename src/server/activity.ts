// What this server did, minute by minute, for the last day: for the charts of the web page. In memory and small; what is to be kept
// longer is for Prometheus. Queues are looked at once in a minute in which something happened: an idle server asks nothing.

import type { Clock } from "../core/model/ports.ts"
import { isFirstOfRun } from "../engine/attempts/claims.ts"
import type { Observer } from "../engine/ports.ts"
import type { StatsStore } from "../store/contract/stats.ts"

const MINUTE_MS = 60_000
export const MINUTES = 1440
/** Waits of a minute that its median and its 95th of a hundred are taken from. */
const MOST_WAITS = 500

interface Minute {
  success: number
  failed: number
  waits: number[]
  ready: number | null
  running: number | null
  /** Ends by queue. */
  ended: Map<string, number>
}

/** Oldest first, one entry a minute; the last one is the minute that goes on. */
export interface SeriesColumns {
  from: number
  success: number[]
  failed: number[]
  dispatch_p50_ms: (number | null)[]
  dispatch_p95_ms: (number | null)[]
  ready: (number | null)[]
  running: (number | null)[]
}

const newMinute = (): Minute => ({ success: 0, failed: 0, waits: [], ready: null, running: null, ended: new Map() })

export class Series {
  readonly #store: Pick<StatsStore, "stats">
  readonly #clock: Clock
  readonly #minutes = new Map<number, Minute>()
  #cancelLook: (() => void) | null = null

  constructor(store: Pick<StatsStore, "stats">, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  readonly observer: Observer = {
    attemptEnded: (claim, node, { state, startedAt }) => {
      const minute = this.#minute()
      if (state === "success") minute.success += 1
      else minute.failed += 1
      minute.ended.set(node.queue, (minute.ended.get(node.queue) ?? 0) + 1)
      if (startedAt === null || minute.waits.length >= MOST_WAITS || !isFirstOfRun(claim, node)) return
      minute.waits.push(Math.max(0, startedAt - Date.parse(claim.run.createdAt)))
    },
    turn: ({ changes, claims }) => {
      if (changes + claims > 0) this.#lookSoon()
    },
  }

  /** Ends in the last whole minute and in the one that goes on, taken to a minute. */
  endedPerMinute(queue: string): number {
    const now = this.#clock.now()
    const index = Math.floor(now / MINUTE_MS)
    const count = (minute: number): number => this.#minutes.get(minute)?.ended.get(queue) ?? 0
    const share = 1 - (now % MINUTE_MS) / MINUTE_MS
    return Math.round(count(index) + share * count(index - 1))
  }

  columns(): SeriesColumns {
    const last = Math.floor(this.#clock.now() / MINUTE_MS)
    const first = Math.min(last, ...this.#minutes.keys())
    const indexes = Array.from({ length: last - first + 1 }, (_, i) => first + i).slice(-MINUTES)
    const minutes = indexes.map((index) => this.#minutes.get(index) ?? null)
    return {
      from: indexes[0]! * MINUTE_MS,
      success: minutes.map((minute) => minute?.success ?? 0),
      failed: minutes.map((minute) => minute?.failed ?? 0),
      dispatch_p50_ms: minutes.map((minute) => quantile(minute?.waits ?? [], 0.5)),
      dispatch_p95_ms: minutes.map((minute) => quantile(minute?.waits ?? [], 0.95)),
      ready: carried(minutes.map((minute) => minute?.ready ?? null)),
      running: carried(minutes.map((minute) => minute?.running ?? null)),
    }
  }

  stop(): void {
    this.#cancelLook?.()
  }

  #minute(): Minute {
    const index = Math.floor(this.#clock.now() / MINUTE_MS)
    const found = this.#minutes.get(index)
    if (found !== undefined) return found
    const made = newMinute()
    this.#minutes.set(index, made)
    for (const old of this.#minutes.keys()) {
      if (old <= index - MINUTES || this.#minutes.size > MINUTES) this.#minutes.delete(old)
      else break
    }
    // Only the last two are asked for by queue.
    this.#minutes.get(index - 2)?.ended.clear()
    return made
  }

  /** At the end of the minute, while it is still that minute. */
  #lookSoon(): void {
    const left = MINUTE_MS - (this.#clock.now() % MINUTE_MS)
    this.#cancelLook ??= this.#clock.after(Math.max(0, left - 500), () => void this.#look())
  }

  async #look(): Promise<void> {
    const minute = this.#minute()
    try {
      const { ready, running } = await this.#store.stats()
      minute.ready = ready.reduce((sum, queue) => sum + queue.count, 0)
      minute.running = running
    } catch {
      // The store is away: this minute has no figure, the next one is tried again.
    } finally {
      this.#cancelLook = null
    }
  }
}

const quantile = (values: readonly number[], part: number): number | null => {
  if (values.length === 0) return null
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))]!
}

/** A minute in which nothing happened is as the one before it. */
const carried = (values: readonly (number | null)[]): (number | null)[] => {
  let last: number | null = null
  return values.map((value) => (last = value ?? last))
}
