// Fires schedules: creates the run of each tick that is due. The store accepts a tick only if no other server has fired it, and keeps a key
// per tick, so that there is one run per tick across servers and restarts.

import { scheduleKey } from "./deploy.ts"
import { DueLoop } from "./due-loop.ts"
import { renderParams } from "./run-params.ts"
import type { Evaluator, Logger } from "../ports.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { newRunId, type RunId } from "../../core/model/ids.ts"
import { type Clock, iso, type Random } from "../../core/model/ports.ts"
import { dayIn, dueFirings, type Firing, nextFiring } from "../../core/time/schedule.ts"
import type { CompiledWorkflow, ScheduleSpec } from "../../core/model/workflow.ts"
import type { Catalog, ScheduleRow, Tick } from "../../store/contract/catalog.ts"
import type { NewRun, Store } from "../../store/contract/store.ts"

const BATCH = 200
/** A smaller difference between two clocks is drift or a slow reply. */
const MIN_STEP_MS = 2000

export interface SchedulerOptions {
  store: Pick<Store, "getVersion" | "onWake"> & Catalog
  evaluator: Pick<Evaluator, "render">
  clock: Clock
  random: Random
  log: Logger
  /** Cancels a run of a schedule in favour of the next one (`overlap: cancel`). */
  cancel(runId: RunId): Promise<void>
  /** Called after runs were created. */
  wake(): void
}

export class Scheduler extends DueLoop {
  readonly #options: SchedulerOptions
  /** The store's clock minus the monotonic clock, at the last pass. Infinite before the first one: the clock may have been set back. */
  #clockOffset = Number.POSITIVE_INFINITY

  constructor(options: SchedulerOptions) {
    super(options, "failed to fire schedules; trying again")
    this.#options = options
  }

  protected override async pass(signal: AbortSignal): Promise<number | null> {
    await this.#followClock()
    while (!signal.aborted && (await this.#fireDue()) === BATCH);
    return await this.#options.store.nextTickMs()
  }

  /** After the clock was set back, moves schedules whose ticks fired ahead of time to their next tick of the new time. */
  async #followClock(): Promise<void> {
    const { store, clock } = this.#options
    const now = await store.currentTime()
    const offset = now - clock.monotonic()
    const setBack = offset < this.#clockOffset - MIN_STEP_MS
    this.#clockOffset = offset
    if (!setBack) return
    const moves = (await store.schedulesAhead()).flatMap(({ id, workflow, position, spec, nextAt }) => {
      const next = nextFiring(spec, scheduleKey(workflow, position), now)
      return next === null || next.at >= Date.parse(nextAt!)
        ? []
        : [{ scheduleId: id, expected: nextAt!, nextAt: iso(next.at) }]
    })
    if (moves.length > 0) await store.moveSchedules(moves)
  }

  /** Fires a batch. Returns the number of schedules in it. */
  async #fireDue(): Promise<number> {
    const { store } = this.#options
    const found = await store.dueSchedules(BATCH)
    const now = found.length === 0 ? 0 : await store.currentTime()
    // The clock may have been set back since: a tick that has not come yet would count as passed.
    const due = found.filter(({ nextAt }) => Date.parse(nextAt!) <= now)
    try {
      const ticks: Tick[] = []
      for (const schedule of due) ticks.push(...(await this.#ticksOf(schedule, now)))
      await this.#fire(ticks, due)
    } catch (error) {
      if (due.length === 1) throw error
      await this.#fireOneByOne(due, now)
    }
    return found.length
  }

  /** Fires what can be fired of a batch that failed as a whole. Rejects when a schedule fails: the pass is repeated later. */
  async #fireOneByOne(due: readonly ScheduleRow[], now: number): Promise<void> {
    const failures: string[] = []
    for (const schedule of due) {
      try {
        await this.#fire(await this.#ticksOf(schedule, now), [schedule])
      } catch (error) {
        failures.push(`schedule ${schedule.position + 1} of ${schedule.workflow}: ${messageOf(error)}`)
      }
    }
    if (failures.length > 0) throw new Error(failures.join("; "))
  }

  async #fire(ticks: Tick[], schedules: readonly ScheduleRow[]): Promise<void> {
    const { store, wake } = this.#options
    for (const schedule of schedules) if (schedule.spec.overlap === "cancel") await this.#cancelReplaced(schedule, ticks)
    try {
      const fired = await store.fireTicks(ticks)
      if (fired.some(({ run }) => run !== null)) wake()
    } catch (error) {
      // The commit may have succeeded, and a repetition would create nothing.
      wake()
      throw error
    }
  }

  /**
   * Cancels the runs that the next run of a schedule replaces. Done before the tick fires, so that the tick is still due when this
   * fails. Another server may have created the run of this tick or of a later one: those stay, unless the later tick has not come yet,
   * because its run began before the clock was set back.
   */
  async #cancelReplaced({ id }: ScheduleRow, ticks: readonly Tick[]): Promise<void> {
    const { store, cancel } = this.#options
    const next = ticks.find(({ scheduleId, run }) => scheduleId === id && run !== null)
    if (next === undefined) return
    const active = (await store.activeRunsOf(id)).filter(({ logicalDate }) => logicalDate !== next.tick)
    // Read after the runs: no other server creates the run of a tick that has not come by then.
    const now = active.length === 0 ? "" : iso(await store.currentTime())
    for (const { id: runId, logicalDate } of active) if (logicalDate! < next.tick || logicalDate! > now) await cancel(runId)
  }

  async #ticksOf(schedule: ScheduleRow, now: number): Promise<Tick[]> {
    const { store } = this.#options
    const { spec, nextAt } = schedule
    const key = scheduleKey(schedule.workflow, schedule.position)
    const due = dueFirings(spec, key, Date.parse(nextAt!), now)
    const next = nextFiring(spec, key, now)
    const after = next === null ? null : iso(next.at)
    const workflow = await store.getVersion(schedule.versionId)
    const firings = due.length === 0 ? missedFirings(schedule, now) : await this.#applyOverlap(schedule, due)
    if (firings.length === 0) {
      return [{ scheduleId: schedule.id, expected: nextAt!, tick: nextAt!, nextAt: after, run: null, skipped: null }]
    }
    const ticks: Tick[] = []
    let previousRun = workflow.dependsOnPast === true ? await store.lastTickRun(schedule) : null
    for (const [i, { firing, skipped }] of firings.entries()) {
      const planned = skipped === null ? await this.#newRun(schedule, workflow, firing) : { skipped }
      const created = previousRun === null || "skipped" in planned ? planned : { ...planned, previousRun }
      if (workflow.dependsOnPast === true && "id" in created) previousRun = created.id
      ticks.push({
        scheduleId: schedule.id,
        expected: i === 0 ? nextAt! : iso(firing.at),
        tick: iso(firing.tick),
        nextAt: i + 1 < firings.length ? iso(firings[i + 1]!.firing.at) : after,
        run: "skipped" in created ? null : created,
        skipped: "skipped" in created ? created.skipped : null,
      })
    }
    return ticks
  }

  /** Decides which firings create a run while an earlier run of the schedule is active. */
  async #applyOverlap(schedule: ScheduleRow, due: Firing[]): Promise<DecidedFiring[]> {
    const { overlap } = schedule.spec
    if (overlap === "allow" || overlap === "queue") return due.map((firing) => ({ firing, skipped: null }))
    if (overlap === "cancel") {
      return due.map((firing, i) => ({
        firing,
        skipped: i === due.length - 1 ? null : "a later tick was due at the same time (overlap: cancel)",
      }))
    }
    const [active] = await this.#options.store.activeRunsOf(schedule.id)
    const blocker = active === undefined ? "the run of an earlier tick was active" : `run ${active.id} was active`
    return due.map((firing, i) => ({
      firing,
      skipped: i === 0 && active === undefined ? null : `${blocker} (overlap: skip)`,
    }))
  }

  /** Returns the reason, and logs it, when the params of the schedule do not fit the workflow. */
  async #newRun(schedule: ScheduleRow, workflow: CompiledWorkflow, { tick }: Firing): Promise<NewRun | { skipped: string }> {
    const { evaluator, clock, random, log } = this.#options
    const params = await scheduledParams(evaluator, workflow, schedule.spec, new Date(tick))
    if ("problem" in params) {
      const fields = { workflow: schedule.workflow, problem: params.problem }
      log.error(fields, "the params of a schedule do not fit its workflow; no run was created")
      return { skipped: `the params of the schedule do not fit the workflow: ${params.problem}` }
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

/** A due firing. `skipped`: the reason why it creates no run, or null. */
interface DecidedFiring {
  firing: Firing
  skipped: string | null
}

/** Returns the last tick that was missed while no server was running, when `catchup` does not create its run. */
const missedFirings = ({ spec, workflow, position, nextAt }: ScheduleRow, now: number): DecidedFiring[] =>
  dueFirings({ ...spec, catchup: "latest" }, scheduleKey(workflow, position), Date.parse(nextAt!), now).map((firing) => ({
    firing,
    skipped: `no server was running at that time (catchup: ${spec.catchup})`,
  }))

/** Returns the params of a tick: those of the schedule, whose expressions can refer to the tick, over the workflow's defaults. */
export const scheduledParams = (
  evaluator: Pick<Evaluator, "render">,
  workflow: CompiledWorkflow,
  { params, timezone }: Pick<ScheduleSpec, "params" | "timezone">,
  tick: Date,
  trigger = "schedule",
): ReturnType<typeof renderParams> =>
  renderParams(evaluator, workflow, params, {
    logical_date: tick.toISOString(),
    date: dayIn(timezone, tick),
    trigger,
    cause: null,
  })
