// Backfills a workflow: creates one run per tick of its schedules in a past range. Each run has the idempotency key of its tick, so a
// repeated backfill creates nothing twice.
//
// All runs are created at once; those beyond `maxActiveRuns` = N wait as pending, oldest tick first. This uses `overlap: queue`: run i
// waits for earlier runs of track i mod N, and to the store each track is a schedule, with a negative id that no schedule has.

import { scheduledParams } from "./scheduler.ts"
import { sleep } from "../../sleep.ts"
import type { Evaluator } from "../ports.ts"
import { newRunId, type RunId } from "../../core/model/ids.ts"
import { type Clock, iso, type Random } from "../../core/model/ports.ts"
import { lastInstantOf, startOf, ticksIn } from "../../core/time/schedule.ts"
import type { ScheduleSpec } from "../../core/model/workflow.ts"
import { currentActor } from "../../store/contract/audit-scope.ts"
import type { Catalog, WorkflowRow } from "../../store/contract/catalog.ts"
import { Conflict, NotFound } from "../../store/contract/errors.ts"
import type { NewRun, Store } from "../../store/contract/store.ts"

const MAX_TICKS = 10_000
const MAX_TRACKS = 1000
const DEFAULT_ACTIVE_RUNS = 4
const BATCH = 200

export interface BackfillOptions {
  store: Pick<Store, "createRuns"> & Pick<Catalog, "getWorkflow">
  evaluator: Pick<Evaluator, "render">
  clock: Clock
  random: Random
  /** Called after each batch of runs, also on error: the commit may have succeeded. */
  wake(): void
}

export interface BackfillRequest {
  workflow: string
  /** First and last day in the time zone of each schedule, or instant, both inclusive. */
  from: string
  to: string
  /** Returns the ticks without creating runs. */
  plan: boolean
  /** Limit of concurrent runs of backfills of this workflow; null: 4. */
  maxActiveRuns: number | null
}

interface BackfillTick {
  tick: number
  position: number
  spec: ScheduleSpec
}

export const backfill = async (
  options: BackfillOptions,
  request: BackfillRequest,
): Promise<{ ticks: string[]; runs: string[] }> => {
  const { store, clock, wake } = options
  const workflow = await store.getWorkflow(request.workflow)
  if (workflow === null) throw new NotFound(`there is no workflow ${request.workflow}`)
  const due = await ticksBetween(clock, workflow, request)
  const ticks = due.map(({ tick }) => iso(tick))
  if (request.plan) return { ticks, runs: [] }
  const tracks = Math.min(request.maxActiveRuns ?? DEFAULT_ACTIVE_RUNS, MAX_TRACKS)
  const runs: NewRun[] = []
  /** The last run of each schedule, by position. */
  const last = new Map<number, RunId>()
  for (const [i, each] of due.entries()) {
    const run = await newRun(options, workflow, each, i % tracks)
    const previousRun = workflow.compiled.dependsOnPast === true ? last.get(each.position) : undefined
    runs.push(previousRun === undefined ? run : { ...run, previousRun })
    last.set(each.position, run.id)
  }
  /** Ids of created runs, and of those that an earlier backfill has created, by the planned ids. */
  const ids = new Map<RunId, RunId>()
  for (let i = 0; i < runs.length; i += BATCH) {
    const batch = runs.slice(i, i + BATCH).map(({ previousRun, ...run }) => ({
      ...run,
      ...(previousRun !== undefined && { previousRun: ids.get(previousRun) ?? previousRun }),
    }))
    const created = await store.createRuns(batch).finally(wake)
    for (const [j, { run }] of created.entries()) ids.set(batch[j]!.id, run.id)
  }
  return { ticks, runs: [...ids.values()] }
}

/** Yields to other work between pages of ticks. */
const ticksBetween = async (
  clock: Clock,
  workflow: WorkflowRow,
  { from, to }: Pick<BackfillRequest, "from" | "to">,
): Promise<BackfillTick[]> => {
  const { schedules, name } = workflow.compiled
  if (schedules.length === 0) throw new Conflict(`the workflow ${name} has no schedule, so there are no ticks to backfill`)
  const due: BackfillTick[] = []
  for (const [position, spec] of schedules.entries()) {
    const last = lastInstantOf(to, spec.timezone)
    for (let at: number | null = startOf(from, spec.timezone); at !== null;) {
      const { ticks, next } = ticksIn(spec, at, last)
      for (const tick of ticks) due.push({ tick, position, spec })
      if (due.length > MAX_TICKS)
        throw new Conflict(`there are more than ${MAX_TICKS} ticks in this range; choose a shorter one`)
      at = next
      await sleep(clock, 0)
    }
  }
  return due.toSorted((a, b) => a.tick - b.tick || a.position - b.position)
}

const newRun = async (
  { evaluator, clock, random }: BackfillOptions,
  workflow: WorkflowRow,
  { tick, position, spec }: BackfillTick,
  track: number,
): Promise<NewRun> => {
  const params = await scheduledParams(evaluator, workflow.compiled, spec, new Date(tick), "backfill")
  if ("problem" in params) throw new Conflict(`the params of the tick ${iso(tick)} do not fit: ${params.problem}`)
  return {
    id: newRunId(clock.now(), random.hex128()),
    workflowId: workflow.id,
    versionId: workflow.versionId,
    trigger: "backfill",
    params: params.values,
    priority: null,
    logicalDate: iso(tick),
    createdBy: currentActor(),
    idempotencyKey: `backfill:${position}:${iso(tick)}`,
    private: false,
    workingDir: null,
    timezone: spec.timezone,
    scheduleId: -(workflow.id * MAX_TRACKS + track),
    waitForSchedule: true,
  }
}
