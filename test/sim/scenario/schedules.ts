// Adds small workflows with schedules to some worlds: every overlap and catch-up mode, and a time during which no engine is up, so that
// ticks are missed. Uses a random stream of its own, which leaves the rest of the seed as it is.

import { iso } from "../../../src/core/model/ports.ts"
import type { ScheduleSpec } from "../../../src/core/model/workflow.ts"
import { START_MS } from "../clock.ts"
import { Rng } from "../rng.ts"
import { PARAMS } from "./waiting-tasks.ts"
import { type SimWorkflow, smallWorkflow } from "./workflows.ts"

/** Time between two ticks; ticks are its multiples. */
export const TICK_MS = 30_000
const SHARE = 0.2
const MAX_TASKS = 2

/** A time during which all engines are down. */
export interface Outage {
  at: number
  forMs: number
}

export const makeScheduled = (seed: number): SimWorkflow[] => {
  const rng = new Rng("schedules", seed)
  if (!rng.chance(SHARE)) return []
  return Array.from({ length: rng.int(1, 2) }, (_, i) => {
    const workflow = smallWorkflow(`ticks${i}`, seed, MAX_TASKS)
    const schedule: ScheduleSpec = {
      cron: "*/30 * * * * *",
      timezone: "UTC",
      overlap: rng.pick(["allow", "skip", "queue", "cancel"]),
      catchup: rng.pick(["none", "latest", "all"]),
      end: iso(START_MS + rng.int(2, 8) * TICK_MS + 1),
      params: { map: { x: { lit: rng.int(0, 5) }, g: { lit: "a" } } },
    }
    Object.assign(workflow.compiled, { params: PARAMS, schedules: [schedule] })
    // Runs of a schedule meet each other only if they take a while.
    workflow.rates = { ...workflow.rates, slow: rng.pick([0.1, 0.6]) }
    return workflow
  })
}

/** Longer than the minute by which a tick may be late. */
export const makeOutage = (seed: number): Outage | null => {
  const rng = new Rng("outage", seed)
  return rng.chance(0.5) ? { at: rng.int(0, 3 * TICK_MS), forMs: rng.int(1, 6) * TICK_MS } : null
}
