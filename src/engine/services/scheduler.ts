// Fires schedules. Sleeps until the next tick of all is due; then takes what is due in batches, each tick conditional on nobody
// else having fired it, and each with a key that is kept: one run per tick, whatever restarts.

import { messageOf } from "../../core/model/error-message.ts"
import { scheduleKey } from "./deploy.ts"
import type { Evaluator, Logger } from "../ports.ts"
import { newRunId, type RunId } from "../../core/model/ids.ts"
import type { JsonObject } from "../../core/model/json.ts"
import { bindParams } from "../../core/rules/params.ts"
import { type Clock, iso, type Random } from "../../core/model/ports.ts"
import { dayIn, dueFirings, type Firing, nextFiring } from "../../core/time/schedule.ts"
import type { CompiledWorkflow, ScheduleSpec } from "../../core/model/workflow.ts"
import type { Catalog, ScheduleRow, Tick } from "../../store/contract/catalog.ts"
import type { NewRun, Store } from "../../store/contract/store.ts"

const BATCH = 200
const RETRY_MS = 1000
/** A timer that fires a little early must not find nothing due and spin. */
const MIN_SLEEP_MS = 5
/** Others commit hundreds of times a second, and deploy now and then. */
const OTHERS_MS = 1000

export interface SchedulerOptions {
  store: Pick<Store, "compiled" | "onWake"> & Catalog
  evaluator: Pick<Evaluator, "render">
  clock: Clock
  random: Random
  log: Logger
  /** A run of the schedule gives way to the next one (`overlap: cancel`). */
  cancel(runId: RunId): Promise<void>
  /** Runs were made. */
  wake(): void
}

export class Scheduler {
  readonly #options: SchedulerOptions
  #cancelTimer: (() => void) | null = null
  #cancelOthers: (() => void) | null = null
  #looking = false
  #again = false
  #stopped = true

  constructor(options: SchedulerOptions) {
    this.#options = options
  }

  start(): void {
    this.#stopped = false
    this.#options.store.onWake(() => this.#lookSoon())
    this.wake()
  }

  stop(): void {
    this.#stopped = true
    this.#cancelTimer?.()
    this.#cancelOthers?.()
  }

  /** Others have committed something: perhaps a schedule. */
  #lookSoon(): void {
    if (this.#stopped) return
    this.#cancelOthers ??= this.#options.clock.after(OTHERS_MS, () => {
      this.#cancelOthers = null
      this.wake()
    })
  }

  /** A schedule was deployed, resumed or removed, or a tick is due. */
  wake(): void {
    if (this.#stopped) return
    if (this.#looking) {
      this.#again = true
      return
    }
    this.#looking = true
    void this.#look()
  }

  async #look(): Promise<void> {
    const { store, log } = this.#options
    let sleep: number | null = RETRY_MS
    try {
      do {
        this.#again = false
        while (!this.#stopped && (await this.#fireDue()) === BATCH);
        sleep = await store.nextTickMs()
      } while (this.#again && !this.#stopped)
    } catch (error) {
      log.warn({ error: String(error) }, "could not look at the schedules; trying again")
    }
    this.#looking = false
    this.#cancelTimer?.()
    this.#cancelTimer =
      sleep === null || this.#stopped ? null : this.#options.clock.after(Math.max(sleep, MIN_SLEEP_MS), () => this.wake())
  }

  async #fireDue(): Promise<number> {
    const { store, wake } = this.#options
    const due = await store.dueSchedules(BATCH)
    const now = this.#options.clock.now()
    const ticks: Tick[] = []
    for (const schedule of due) ticks.push(...(await this.#ticksOf(schedule, now)))
    const fired = await store.fireTicks(ticks)
    if (fired.some(({ run }) => run !== null)) wake()
    return due.length
  }

  async #ticksOf(schedule: ScheduleRow, clockNow: number): Promise<Tick[]> {
    const { store } = this.#options
    const { spec, nextAt } = schedule
    // The store says that it is due, by its own clock: a clock here that is behind must not pass the tick over.
    const now = Math.max(clockNow, Date.parse(nextAt!))
    const key = scheduleKey(schedule.workflow, schedule.position)
    const due = dueFirings(spec, key, Date.parse(nextAt!), now)
    const next = nextFiring(spec, key, now)
    const after = next === null ? null : iso(next.at)
    const workflow = await store.compiled(schedule.versionId)
    const firings = await this.#overlapping(schedule, due)
    if (firings.length === 0) return [{ scheduleId: schedule.id, expected: nextAt!, tick: nextAt!, nextAt: after, run: null }]
    const ticks: Tick[] = []
    for (const [i, { firing, makes }] of firings.entries()) {
      ticks.push({
        scheduleId: schedule.id,
        expected: i === 0 ? nextAt! : iso(firing.at),
        tick: iso(firing.tick),
        nextAt: i + 1 < firings.length ? iso(firings[i + 1]!.firing.at) : after,
        run: makes ? await this.#run(schedule, workflow, firing) : null,
      })
    }
    return ticks
  }

  /** What becomes of each firing while an earlier run of the schedule is active. */
  async #overlapping(schedule: ScheduleRow, due: Firing[]): Promise<{ firing: Firing; makes: boolean }[]> {
    const { overlap } = schedule.spec
    if (overlap === "allow" || overlap === "queue" || due.length === 0) return due.map((firing) => ({ firing, makes: true }))
    const active = await this.#options.store.activeRunsOf(schedule.id)
    if (overlap === "skip") return due.map((firing, i) => ({ firing, makes: i === 0 && active.length === 0 }))
    for (const run of active) await this.#options.cancel(run.id)
    return due.map((firing, i) => ({ firing, makes: i === due.length - 1 }))
  }

  async #run(schedule: ScheduleRow, workflow: CompiledWorkflow, { tick }: Firing): Promise<NewRun | null> {
    const { evaluator, clock, random, log } = this.#options
    const params = await scheduledParams(evaluator, workflow, schedule.spec, new Date(tick))
    if ("problem" in params) {
      log.error(
        { workflow: schedule.workflow, problem: params.problem },
        "a schedule gives params that do not fit; no run was made",
      )
      return null
    }
    return {
      id: newRunId(clock.now(), random.hex128()),
      workflowId: schedule.workflowId,
      versionId: schedule.versionId,
      trigger: "schedule",
      params: params.values,
      priority: null,
      logicalDate: iso(tick),
      idempotencyKey: null,
      private: false,
      workingDir: null,
      scheduleId: schedule.id,
      timezone: schedule.spec.timezone,
      waitForSchedule: schedule.spec.overlap === "queue",
    }
  }
}

/** The params of a tick: the schedule's own, whose expressions know the tick, over the workflow's defaults. */
export const scheduledParams = async (
  evaluator: Pick<Evaluator, "render">,
  workflow: CompiledWorkflow,
  spec: Pick<ScheduleSpec, "params" | "timezone">,
  tick: Date,
  trigger = "schedule",
): Promise<{ values: JsonObject } | { problem: string }> => {
  const run = {
    id: "",
    workflow: workflow.name,
    logical_date: tick.toISOString(),
    date: dayIn(spec.timezone, tick),
    trigger,
  }
  try {
    const given = spec.params === undefined ? {} : await evaluator.render(spec.params, { params: {}, tasks: {}, run })
    const bound = bindParams(workflow, { values: given as JsonObject })
    return bound.ok
      ? { values: bound.params }
      : { problem: bound.problems.map(({ path, message }) => `${path} ${message}`).join("; ") }
  } catch (error) {
    return { problem: messageOf(error) }
  }
}
