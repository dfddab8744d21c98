// Makes up for ticks of the past: one run per tick of a workflow's schedules in a range. The same range again makes nothing twice:
// each run has the key of its tick. All runs are made at once; those beyond `maxActiveRuns` wait as pending, oldest tick first. That
// is the rule for `overlap: queue` put to use: run i waits for the earlier ones of lane i mod N, and each lane is a schedule of
// its own as far as the store is concerned, with a number that no schedule has. So it holds across servers and restarts.

import { scheduledParams } from "./scheduler.ts"
import type { Evaluator } from "../ports.ts"
import { newRunId } from "../../core/model/ids.ts"
import { type Clock, iso, type Random } from "../../core/model/ports.ts"
import { ticksIn } from "../../core/time/schedule.ts"
import type { ScheduleSpec } from "../../core/model/workflow.ts"
import type { Catalog, WorkflowRow } from "../../store/contract/catalog.ts"
import { Conflict, NotFound } from "../../store/contract/errors.ts"
import type { NewRun, Store } from "../../store/contract/store.ts"

const MOST_TICKS = 10_000
const MOST_LANES = 1000
const DEFAULT_ACTIVE = 4
const RUNS_AT_ONCE = 200

export interface BackfillParts {
  store: Pick<Store, "createRuns"> & Pick<Catalog, "getWorkflow">
  evaluator: Pick<Evaluator, "render">
  clock: Clock
  random: Random
  /** Called after each batch of runs, also on error: the commit may have succeeded. */
  wake(): void
}

export interface BackfillRequest {
  workflow: string
  /** Both included. */
  from: string
  to: string
  /** Only lists the ticks. */
  plan: boolean
  /** Runs of backfills of this workflow at once; null: 4. */
  maxActiveRuns: number | null
}

interface Due {
  tick: number
  position: number
  spec: ScheduleSpec
}

export const backfill = async (
  parts: BackfillParts,
  request: BackfillRequest,
): Promise<{ ticks: string[]; runs: string[] }> => {
  const workflow = await parts.store.getWorkflow(request.workflow)
  if (workflow === null) throw new NotFound(`there is no workflow ${request.workflow}`)
  const due = await dueIn(parts.clock, workflow, Date.parse(request.from), Date.parse(request.to))
  const ticks = due.map(({ tick }) => iso(tick))
  if (request.plan) return { ticks, runs: [] }
  const lanes = Math.min(request.maxActiveRuns ?? DEFAULT_ACTIVE, MOST_LANES)
  const runs: NewRun[] = []
  for (const [i, each] of due.entries()) runs.push(await runOf(parts, workflow, each, i % lanes))
  const made: string[] = []
  for (let i = 0; i < runs.length; i += RUNS_AT_ONCE) {
    const created = await parts.store.createRuns(runs.slice(i, i + RUNS_AT_ONCE)).finally(parts.wake)
    for (const { run } of created) made.push(run.id)
  }
  return { ticks, runs: made }
}

const dueIn = async (clock: Clock, workflow: WorkflowRow, from: number, to: number): Promise<Due[]> => {
  const { schedules, name } = workflow.compiled
  if (schedules.length === 0) throw new Conflict(`the workflow ${name} has no schedule, so there are no ticks to make up for`)
  const due: Due[] = []
  for (const [position, spec] of schedules.entries()) {
    for (let at: number | null = from; at !== null;) {
      const { ticks, next } = ticksIn(spec, at, to)
      for (const tick of ticks) due.push({ tick, position, spec })
      if (due.length > MOST_TICKS)
        throw new Conflict(`there are more than ${MOST_TICKS} ticks in this range; choose a shorter one`)
      at = next
      await new Promise<void>((resolve) => clock.after(0, resolve))
    }
  }
  return due.toSorted((a, b) => a.tick - b.tick || a.position - b.position)
}

const runOf = async (
  { evaluator, clock, random }: BackfillParts,
  workflow: WorkflowRow,
  { tick, position, spec }: Due,
  lane: number,
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
    idempotencyKey: `backfill:${position}:${iso(tick)}`,
    private: false,
    workingDir: null,
    timezone: spec.timezone,
    scheduleId: -(workflow.id * MOST_LANES + lane),
    waitForSchedule: true,
  }
}
