// The live view: redraws when something changed, at most ten times a second, and at times for the elapsed times alone.

import { timeLeft } from "./estimate.ts"
import type { RunView } from "./model.ts"
import type { Reporter } from "./reporter.ts"
import { frameLines, leader, logKey, visibleTasks } from "./rows.ts"
import type { Screen } from "./screen.ts"
import type { Clock } from "../../core/model/ports.ts"

export interface LiveOptions {
  view: RunView
  screen: Pick<Screen, "size" | "draw" | "close">
  clock: Clock
  /** Seconds that an instance of each task took in earlier runs. */
  means: ReadonlyMap<string, number>
  concurrency: number
  /** The last line that a running attempt has written; null: nothing yet. */
  lastLine(task: string, path: string, attempt: number): Promise<string | null>
  printWarning(text: string): void
}

const TICK_MS = 100
/** Without news, every so many ticks: the elapsed times move on. */
const IDLE_TICKS = 3
const LOG_TICKS = 5
const MAX_FOLLOWED = 16

export class LiveReporter implements Reporter {
  readonly #options: LiveOptions
  #lastLines = new Map<string, string>()
  #note: string | null = null
  #warnings: string[] = []
  #dirty = true
  #ticks = 0
  #reading = false
  #cancel: (() => void) | null = null

  constructor(options: LiveOptions) {
    this.#options = options
  }

  start(): void {
    this.#tick()
  }

  event(): void {
    this.#dirty = true
  }

  note(text: string): void {
    this.#note = text
    if (this.#cancel !== null) this.#draw()
  }

  /** Kept for the end: a line in between would tear the view. */
  warn(text: string): void {
    if (this.#cancel === null) this.#options.printWarning(text)
    else this.#warnings.push(text)
  }

  stop(): void {
    if (this.#cancel === null) return
    this.#cancel()
    this.#cancel = null
    this.#note = null
    this.#draw()
    this.#options.screen.close()
    for (const warning of this.#warnings.splice(0)) this.#options.printWarning(warning)
  }

  #tick(): void {
    this.#ticks += 1
    if (this.#dirty || this.#ticks % IDLE_TICKS === 0) this.#draw()
    if (this.#ticks % LOG_TICKS === 0) void this.#readLogs()
    this.#cancel = this.#options.clock.after(TICK_MS, () => this.#tick())
  }

  #draw(): void {
    const { view, screen, clock, means, concurrency } = this.#options
    const now = clock.now()
    this.#dirty = false
    screen.draw(
      frameLines({
        view,
        now,
        ...screen.size,
        lastLines: this.#lastLines,
        timeLeftMs: timeLeft(view, now, means, concurrency),
        note: this.#note,
      }),
    )
  }

  /** Of the tasks on screen, those that run. */
  async #readLogs(): Promise<void> {
    if (this.#reading) return
    this.#reading = true
    const { view, screen, lastLine } = this.#options
    const lines = new Map<string, string>()
    for (const task of visibleTasks(view, screen.size.height).shown) {
      const live = leader(task)
      if (live === null || live.retryAt !== null || lines.size >= MAX_FOLLOWED) continue
      // A log that cannot be read must not stop the view; the task's own end tells more.
      const line = await lastLine(task.name, live.path, live.attempt).catch(() => null)
      if (line !== null) lines.set(logKey(task.name, live.path), line)
    }
    this.#lastLines = lines
    this.#dirty = true
    this.#reading = false
  }
}
