// Activity of this server per minute for the last day, for the charts of the web UI. Kept in memory; longer histories are the task of
// Prometheus. Queues are read once in a minute with activity: an idle server reads nothing.

import type { Clock } from "../core/model/ports.ts"
import { isFirstOfRun } from "../engine/attempts/claims.ts"
import type { Observer } from "../engine/ports.ts"
import type { StatsStore } from "../store/contract/stats.ts"

const MINUTE_MS = 60_000
export const MINUTES = 1440
/** Samples per minute for the quantiles of dispatch times. */
const MAX_WAITS = 500

interface Minute {
  success: number
  failed: number
  waits: number[]
  ready: number | null
  running: number | null
  /** Ended attempts by queue. */
  ended: Map<string, number>
}

/** One entry per minute, oldest first; the last one is the current minute. */
export interface ActivitySeries {
  from: number
  success: number[]
  failed: number[]
  dispatch_p50_ms: (number | null)[]
  dispatch_p95_ms: (number | null)[]
  ready: (number | null)[]
  running: (number | null)[]
}

const newMinute = (): Minute => ({ success: 0, failed: 0, waits: [], ready: null, running: null, ended: new Map() })

export class Activity {
  readonly #store: Pick<StatsStore, "stats">
  readonly #clock: Clock
  readonly #minutes = new Map<number, Minute>()
  #cancelSample: (() => void) | null = null

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
      if (startedAt === null || minute.waits.length >= MAX_WAITS || !isFirstOfRun(claim, node)) return
      minute.waits.push(Math.max(0, startedAt - Date.parse(claim.run.createdAt)))
    },
    turn: ({ changes, claims }) => {
      if (changes + claims > 0) this.#sampleLater()
    },
  }

  /** Returns the ended attempts of the last 60 seconds, estimated from the current minute and the one before. */
  endedPerMinute(queue: string): number {
    const now = this.#clock.now()
    const index = Math.floor(now / MINUTE_MS)
    const count = (minute: number): number => this.#minutes.get(minute)?.ended.get(queue) ?? 0
    const share = 1 - (now % MINUTE_MS) / MINUTE_MS
    return Math.round(count(index) + share * count(index - 1))
  }

  series(): ActivitySeries {
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
    this.#cancelSample?.()
  }

  #minute(): Minute {
    const index = Math.floor(this.#clock.now() / MINUTE_MS)
    const found = this.#minutes.get(index)
    if (found !== undefined) return found
    const minute = newMinute()
    this.#minutes.set(index, minute)
    for (const old of this.#minutes.keys()) {
      if (old <= index - MINUTES || this.#minutes.size > MINUTES) this.#minutes.delete(old)
      else break
    }
    // Counts by queue are read for the last two minutes only.
    this.#minutes.get(index - 2)?.ended.clear()
    return minute
  }

  /** Reads the queues shortly before the end of the minute. */
  #sampleLater(): void {
    const left = MINUTE_MS - (this.#clock.now() % MINUTE_MS)
    this.#cancelSample ??= this.#clock.after(Math.max(0, left - 500), () => void this.#sample())
  }

  async #sample(): Promise<void> {
    const minute = this.#minute()
    try {
      const { ready, running } = await this.#store.stats()
      minute.ready = ready.reduce((sum, queue) => sum + queue.count, 0)
      minute.running = running
    } catch {
      // The store is unavailable: this minute has no sample.
    } finally {
      this.#cancelSample = null
    }
  }
}

const quantile = (values: readonly number[], fraction: number): number | null => {
  if (values.length === 0) return null
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(fraction * sorted.length))]!
}

/** Fills minutes without a sample with the value before them. */
const carried = (values: readonly (number | null)[]): (number | null)[] => {
  let last: number | null = null
  return values.map((value) => (last = value ?? last))
}
