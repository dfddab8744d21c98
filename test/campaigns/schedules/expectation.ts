// Which ticks a schedule owes: those that the clock passed while a process was up, and of those that it missed what `catchup` asks for.

import type { ScheduleSpec } from "../../../src/core/model/workflow.ts"

/** Processes notice a clock that was set, and ticks that are at most a minute late, within this time. */
const TOLERANCE_MS = 62_000
const MAX_CATCHUP = 100

/** `due`: it fires. `missed`: it does not. `either`: it may. */
export type Owed = "due" | "missed" | "either"

/** Times of day that passed while a process was up, and times that were missed: while none was up, or because a clock was set forward. */
interface Stretch {
  from: number
  to: number
  missed: boolean
}

export class Timeline {
  readonly #stretches: Stretch[] = []
  /** The scheduler knows all ticks up to here. */
  #knownTo: number

  constructor(now: number) {
    this.#knownTo = now
  }

  /** A process was up between these times of day. */
  addUp(from: number, to: number): void {
    if (from > this.#knownTo) this.#stretches.push({ from: this.#knownTo, to: from, missed: true })
    this.#stretches.push({ from, to, missed: false })
    this.#knownTo = to
  }

  /** Returns what is owed for each tick that was passed or missed. */
  owed(ticks: readonly number[], catchup: ScheduleSpec["catchup"]): Map<number, Owed> {
    const owed = new Map<number, Owed>()
    for (const { from, to, missed } of this.#stretches) {
      const within = ticks.filter((tick) => tick > from && tick <= to)
      for (const [i, tick] of within.entries()) {
        const isNear = to - tick < TOLERANCE_MS || tick - from < TOLERANCE_MS
        const found = missed ? owedAfterGap(catchup, within.length - i) : "due"
        // A tick that was passed twice, or near the end of a stretch, may have been fired by either.
        owed.set(tick, isNear || (owed.has(tick) && owed.get(tick) !== found) ? "either" : found)
      }
      if (missed && ticks.some((tick) => Math.abs(tick - to) < TOLERANCE_MS))
        for (const tick of within) owed.set(tick, "either")
    }
    return owed
  }
}

/** `age`: 1 for the latest missed tick. */
const owedAfterGap = (catchup: ScheduleSpec["catchup"], age: number): Owed => {
  switch (catchup) {
    case "none":
      return "missed"
    case "latest":
      return age === 1 ? "due" : "missed"
    case "all":
      return age <= MAX_CATCHUP ? "due" : "missed"
    default:
      return catchup satisfies never
  }
}
