// Test helper: a clock on which no time passes and whose timers the test fires.

import type { Clock } from "../../core/model/ports.ts"

export interface SetTimer {
  ms: number
  fn: () => void
}

/** Returns the clock, and the timers that are set: those that are cancelled leave the list. */
export const timerClock = (): { clock: Clock; timers: SetTimer[] } => {
  const timers: SetTimer[] = []
  const clock: Clock = {
    now: () => 0,
    monotonic: () => 0,
    after(ms, fn) {
      const timer = { ms, fn }
      timers.push(timer)
      return () => void timers.splice(timers.indexOf(timer), 1)
    },
  }
  return { clock, timers }
}
