// The live view on a terminal: redraws after changes, at most ten times a second, and regularly to update elapsed times.

import { timeLeft } from "./estimate.ts"
import type { TerminalRun } from "./terminal-state.ts"
import type { Reporter } from "./reporter.ts"
import { frameLines, longestRunning, logKey, visibleTasks } from "./frame.ts"
import type { Screen } from "./screen.ts"
import type { Clock } from "../../core/model/ports.ts"

export interface LiveOptions {
  view: TerminalRun
  screen: Pick<Screen, "size" | "draw" | "close">
  clock: Clock
  /** Mean duration in seconds of one instance of each task in earlier runs, by task name. */
  pastDurations: ReadonlyMap<string, number>
  concurrency: number
  /** Returns the last log line of a running attempt; null if it has written none. */
  lastLine(task: string, path: string, attempt: number): Promise<string | null>
  printWarning(text: string): void
}

const TICK_MS = 100
/** Ticks between redraws without changes, which update the elapsed times. */
const IDLE_TICKS = 3
/** Ticks between reads of the last log lines. */
const LOG_TICKS = 5
/** Tasks whose last log line is read. */
const MAX_LOGS_READ = 16

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

  /** Prints warnings only after the view is closed: a line in between would corrupt it. */
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
    const { view, screen, clock, pastDurations, concurrency } = this.#options
    const now = clock.now()
    this.#dirty = false
    screen.draw(
      frameLines({
        view,
        now,
        ...screen.size,
        lastLines: this.#lastLines,
        timeLeftMs: timeLeft(view, now, pastDurations, concurrency),
        note: this.#note,
      }),
    )
  }

  /** Reads the last log lines of the running tasks on screen. */
  async #readLogs(): Promise<void> {
    if (this.#reading) return
    this.#reading = true
    const { view, screen, lastLine } = this.#options
    const lines = new Map<string, string>()
    for (const task of visibleTasks(view, screen.size.height).shown) {
      const live = longestRunning(task)
      if (live === null || live.retryAt !== null || lines.size >= MAX_LOGS_READ) continue
      // An unreadable log must not stop the view.
      const line = await lastLine(task.name, live.path, live.attempt).catch(() => null)
      if (line !== null) lines.set(logKey(task.name, live.path), line)
    }
    this.#lastLines = lines
    this.#dirty = true
    this.#reading = false
  }
}
