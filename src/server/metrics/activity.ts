// Activity per minute of the last day, for the charts of the web UI. Kept in the store, so that charts survive a restart and cover all
// servers; longer histories are the task of Prometheus. A minute with activity reads the queues and writes once: an idle server does
// neither.

import type { ActivitySeries } from "../../api/http/ports.ts"
import type { Clock } from "../../core/model/ports.ts"
import { isFirstOfRun } from "../../engine/attempts/claims.ts"
import type { Observer } from "../../engine/ports.ts"
import type { ActivityMinute, StatsStore } from "../../store/contract/stats.ts"

const MINUTE_MS = 60_000
export const MINUTES = 1440
/** Samples per minute for the quantiles of dispatch times. */
const MAX_WAITS = 500

/** Counts of this server that are not saved yet. */
interface Minute {
  success: number
  failed: number
  waits: number[]
  ready: number | null
  running: number | null
  /** Ended attempts by queue, which are not saved. */
  ended: Map<string, number>
}

const newMinute = (): Minute => ({ success: 0, failed: 0, waits: [], ready: null, running: null, ended: new Map() })

type ActivityStore = Pick<StatsStore, "stats" | "addActivity" | "listActivity">

export class Activity {
  readonly #store: ActivityStore
  readonly #clock: Clock
  readonly #minutes = new Map<number, Minute>()
  #cancelSample: (() => void) | null = null

  constructor(store: ActivityStore, clock: Clock) {
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

  async series(): Promise<ActivitySeries> {
    const last = this.#thisMinute()
    const saved = await this.#store.listActivity(last - MINUTES + 1)
    const minutes = new Map(saved.map((each) => [each.minute, each]))
    for (const own of this.#unsaved()) minutes.set(own.minute, sumOf(minutes.get(own.minute), own))
    const first = Math.min(last, ...minutes.keys())
    const indexes = Array.from({ length: last - first + 1 }, (_, i) => first + i).slice(-MINUTES)
    const found = indexes.map((index) => minutes.get(index) ?? null)
    return {
      from: indexes[0]! * MINUTE_MS,
      success: found.map((minute) => minute?.success ?? 0),
      failed: found.map((minute) => minute?.failed ?? 0),
      dispatch_p50_ms: found.map((minute) => minute?.dispatchP50Ms ?? null),
      dispatch_p95_ms: found.map((minute) => minute?.dispatchP95Ms ?? null),
      ready: carried(found.map((minute) => minute?.ready ?? null)),
      running: carried(found.map((minute) => minute?.running ?? null)),
    }
  }

  async stop(): Promise<void> {
    this.#cancelSample?.()
    await this.#save().catch(() => undefined)
  }

  #thisMinute(): number {
    return Math.floor(this.#clock.now() / MINUTE_MS)
  }

  #unsaved(): ActivityMinute[] {
    return [...this.#minutes]
      .filter(([, { success, failed, ready }]) => success + failed > 0 || ready !== null)
      .map(([minute, { success, failed, waits, ready, running }]) => ({
        minute,
        success,
        failed,
        dispatchP50Ms: quantile(waits, 0.5),
        dispatchP95Ms: quantile(waits, 0.95),
        ready,
        running,
      }))
  }

  /** Moves the counts to the store. They stay here if the store is unavailable. */
  async #save(): Promise<void> {
    const minutes = this.#unsaved()
    if (minutes.length === 0) return
    await this.#store.addActivity(minutes, MINUTES)
    for (const { minute, success, failed } of minutes) {
      const own = this.#minutes.get(minute)!
      // Attempts may have ended in the meantime.
      Object.assign(own, { success: own.success - success, failed: own.failed - failed, waits: [], ready: null, running: null })
    }
  }

  #minute(): Minute {
    const index = this.#thisMinute()
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
      await this.#save()
    } catch {
      // The store is unavailable: the counts are saved with those of a later minute.
    } finally {
      this.#cancelSample = null
    }
  }
}

const sumOf = (saved: ActivityMinute | undefined, own: ActivityMinute): ActivityMinute =>
  saved === undefined
    ? own
    : {
        minute: own.minute,
        success: saved.success + own.success,
        failed: saved.failed + own.failed,
        dispatchP50Ms: greater(saved.dispatchP50Ms, own.dispatchP50Ms),
        dispatchP95Ms: greater(saved.dispatchP95Ms, own.dispatchP95Ms),
        ready: own.ready ?? saved.ready,
        running: own.running ?? saved.running,
      }

const greater = (a: number | null, b: number | null): number | null => (a === null || b === null ? (a ?? b) : Math.max(a, b))

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
