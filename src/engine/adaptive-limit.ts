// A limit of concurrent attempts that follows the load of the machine. It doubles every few milliseconds while it is full and nothing is
// under pressure, so that tasks that mostly wait are not held back, and falls back to its minimum under pressure and after idle time, so
// that the next tasks do not all start at once.

import { readFileSync } from "node:fs"
import { availableParallelism, loadavg, totalmem } from "node:os"
import type { ConcurrencyLimit } from "./ports.ts"
import type { Clock } from "../core/model/ports.ts"

export interface AdaptiveLimitOptions {
  min: number
  max: number
  clock: Clock
  /** Returns whether CPU or memory are scarce now. */
  underPressure(): boolean
}

const STEP_MS = 25
/** Time until the pressure is measured again while the limit cannot grow. */
const RECHECK_MS = 100
/** Samples under pressure in a row after which the limit shrinks: a single one may be the start of the tasks themselves. */
const SHRINK_AFTER = 4
/** Time for which a limit that is not full keeps its value. */
const IDLE_MS = 2000

export class AdaptiveLimit implements ConcurrencyLimit {
  readonly #options: AdaptiveLimitOptions
  #limit: number
  #fullAt: number
  #pressures = 0
  #pending = false

  constructor(options: AdaptiveLimitOptions) {
    this.#options = options
    this.#limit = options.min
    this.#fullAt = options.clock.monotonic()
  }

  current(): number {
    const { min, clock } = this.#options
    if (clock.monotonic() - this.#fullAt > IDLE_MS) this.#limit = min
    return this.#limit
  }

  full(isFull: () => boolean, grown: () => void): void {
    this.#fullAt = this.#options.clock.monotonic()
    if (!this.#pending) this.#schedule(STEP_MS, isFull, grown)
  }

  #schedule(ms: number, isFull: () => boolean, grown: () => void): void {
    const { clock, max } = this.#options
    this.#pending = true
    clock.after(ms, () => {
      this.#pending = false
      if (!isFull()) return
      this.#fullAt = clock.monotonic()
      if (this.#adjust()) grown()
      else if (this.#limit < max) this.#schedule(RECHECK_MS, isFull, grown)
    })
  }

  /** Returns whether the limit has grown. */
  #adjust(): boolean {
    const { min, max, underPressure } = this.#options
    const before = this.#limit
    if (underPressure()) {
      this.#pressures += 1
      if (this.#pressures >= SHRINK_AFTER) this.#limit = Math.max(min, Math.floor(before / 2))
    } else {
      this.#pressures = 0
      this.#limit = Math.min(max, before * 2)
    }
    return this.#limit > before
  }
}

/** Returns the options of an engine for a configuration: a fixed number if one was set. */
export const concurrencyOf = (
  { concurrency, maxConcurrency }: { concurrency: number; maxConcurrency: number },
  clock: Clock,
): { concurrency: number; adaptiveConcurrency?: ConcurrencyLimit } => {
  if (maxConcurrency <= concurrency) return { concurrency }
  const range = { min: concurrency, max: maxConcurrency }
  return { concurrency, adaptiveConcurrency: new AdaptiveLimit({ ...range, clock, underPressure: machineUnderPressure }) }
}

/** Runnable threads per core from which on the CPU is under pressure. Sleeping tasks do not count. */
const RUNNABLE_PER_CORE = 3
/** Part of the memory that stays free. */
const FREE_MEMORY = 0.15

/** Returns whether this machine, or the container of this process, is short of CPU or memory. */
export const machineUnderPressure = (): boolean => {
  // A container's limit counts if it is below the memory of the machine.
  const total = Math.min(process.constrainedMemory() || Infinity, totalmem())
  if (process.availableMemory() < FREE_MEMORY * total) return true
  return runnableThreads() > RUNNABLE_PER_CORE * availableParallelism()
}

/** Counts the runnable threads: on Linux those of now; elsewhere the load of the last minute stands for them. */
const runnableThreads = (): number => {
  try {
    const running = /^\S+ \S+ \S+ (\d+)\//.exec(readFileSync("/proc/loadavg", "utf8"))?.[1]
    return Number(running ?? 0)
  } catch {
    return loadavg()[0]!
  }
}
