// Checks schedules: which ticks have runs, which were missed, and whether runs overlap. Ticks are the multiples of a time, computed here.

import type { ScheduleSpec } from "../../../src/core/model/workflow.ts"
import { START_MS } from "../clock.ts"
import type { ScheduleRecord, TickRecord } from "../database/table-reader.ts"
import { TICK_MS } from "../scenario/schedules.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"

/** A tick that is at most this late is not missed. */
const LATE_MS = 60_000

const specOf = ({ spec }: ScheduleRecord): ScheduleSpec => JSON.parse(spec) as ScheduleSpec

/** Checks, at each commit that moves a schedule, the ticks that it moves past. */
export class FiredTicks {
  readonly #simulation: Simulation
  /** Ticks that were missed, by workflow and tick. */
  readonly #missed = new Set<string>()
  #nextBefore = new Map<number, string | null>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  beforeFire(): void {
    this.#nextBefore = new Map(this.#simulation.tables.schedules().map(({ id, next_at }) => [id, next_at]))
  }

  afterFire(): void {
    for (const schedule of this.#simulation.tables.schedules()) {
      const from = this.#nextBefore.get(schedule.id) ?? null
      if (from !== null && from !== schedule.next_at) this.#checkPassed(schedule, Date.parse(from))
    }
  }

  #checkPassed(schedule: ScheduleRecord, from: number): void {
    const { tables, clock } = this.#simulation
    const spec = specOf(schedule)
    const next = schedule.next_at === null ? Date.parse(spec.end!) : Date.parse(schedule.next_at)
    const ticks = new Map(tables.ticks(schedule.workflow_id).map((tick) => [Date.parse(tick.tick_at), tick]))
    const last = Math.max(...ticks.keys())
    if (last > clock.latest) {
      const text = `the tick ${new Date(last).toISOString()} of ${schedule.workflow} fired ${last - clock.latest} ms early`
      throw new Violation("no tick fires early", text)
    }
    for (let tick = from; tick < next && tick <= clock.latest; tick += TICK_MS) {
      const problem = this.#problemOf(spec, tick, last, ticks.get(tick) ?? null, `${schedule.workflow} ${tick}`)
      if (problem === null) continue
      const what = `the tick ${new Date(tick).toISOString()} of ${schedule.workflow} (${spec.overlap}, ${spec.catchup})`
      throw new Violation("ticks have runs as overlap and catchup say", `${what} ${problem}`)
    }
  }

  /** Returns what is wrong with a tick that has passed; null: nothing. `last`: the last tick that is recorded. */
  #problemOf(spec: ScheduleSpec, tick: number, last: number, found: TickRecord | null, key: string): string | null {
    const isLate = this.#simulation.clock.latest - tick > LATE_MS
    if (found === null) {
      if (this.#missed.has(key)) return null
      this.#missed.add(key)
      if (spec.catchup === "all") return "was not caught up"
      if (spec.catchup === "latest") return last > tick ? null : "was the latest one, but has no run"
      return isLate ? null : "is not late, but has no run"
    }
    if (found.run_id !== null) return null
    const isReplaced = spec.overlap === "skip" || (spec.overlap === "cancel" && last > tick)
    if (isReplaced || (spec.catchup === "none" && isLate)) return null
    return `was skipped: ${found.skipped}`
  }
}

/** Checks that the runs of a schedule do not overlap where that is forbidden. */
export const checkOverlaps = ({ tables, scenario }: Simulation): void => {
  if (scenario.workflows.every(({ compiled }) => compiled.schedules.length === 0)) return
  const runs = Map.groupBy(tables.runs(), (run) => run.workflow)
  for (const schedule of tables.schedules()) {
    const { overlap } = specOf(schedule)
    const open = (runs.get(schedule.workflow) ?? []).filter((run) => run.finished_at === null)
    const active = {
      allow: [],
      skip: open,
      queue: open.filter((run) => run.status === "running"),
      cancel: open.filter((run) => run.cancelling === null),
    }[overlap]
    if (active.length < 2) continue
    const ticks = active.map((run) => run.logical_date).join(" and ")
    throw new Violation("runs overlap as their schedule says", `${schedule.workflow} (${overlap}) has runs of ${ticks}`)
  }
}

/** Checks, at the end, that each run of a schedule belongs to one tick. */
export const checkTicks = ({ tables, scenario }: Simulation): void => {
  // A clock that is set back shows times before the deployment.
  const first = scenario.clockSteps.some(({ ms }) => ms < 0) ? 0 : START_MS + 1
  for (const schedule of tables.schedules()) {
    const end = Date.parse(specOf(schedule).end!)
    const runs = tables.runs().filter((run) => run.workflow === schedule.workflow)
    const recorded = new Map(tables.ticks(schedule.workflow_id).map(({ tick_at, run_id }) => [tick_at, run_id]))
    for (const { logical_date, id } of runs) {
      const tick = Date.parse(logical_date!)
      const isTick = tick % TICK_MS === 0 && tick >= first && tick < end
      if (isTick && recorded.get(logical_date!) === id) continue
      throw new Violation("a tick has one run", `run ${id} of ${schedule.workflow} has the tick ${logical_date}`)
    }
    const created = new Set(runs.map(({ id }) => id))
    for (const [tick, id] of recorded) {
      if (id === null || created.has(id)) continue
      throw new Violation(
        "a tick has one run",
        `the tick ${tick} of ${schedule.workflow} has the run ${id}, which is not stored`,
      )
    }
  }
}
