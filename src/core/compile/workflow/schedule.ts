// Compiles `schedule`: a cron expression, an object, or a list of them.

import { cronProblem, isTimezone } from "../../time/cron.ts"
import { intervalExpression, SHORTEST_INTERVAL_MS } from "../../time/interval.ts"
import { longestJitter } from "../../time/schedule.ts"
import type { ScheduleDefinition, WorkflowDefinition } from "../../model/definition.ts"
import { omitUndefined } from "../../values/omit-undefined.ts"
import type { Path } from "../../model/problems.ts"
import type { ParamSpec, ScheduleSpec } from "../../model/workflow.ts"
import type { CompileContext } from "../context/context.ts"
import { quote } from "../context/names.ts"
import { checkGivenParams } from "./given-params.ts"
import { dateProblem } from "./params.ts"
import { compileDuration } from "../context/duration.ts"

/** The dates of each expression are searched for, which takes a while. */
const MAX_SCHEDULES = 100

export const compileSchedules = (
  context: CompileContext,
  { schedule, depends_on_past: dependsOnPast = false }: Pick<WorkflowDefinition, "schedule" | "depends_on_past">,
  params: readonly ParamSpec[],
): ScheduleSpec[] => {
  const parts = { params, dependsOnPast }
  if (dependsOnPast && schedule === undefined)
    context.problems.add(["depends_on_past"], "needs a schedule: only scheduled runs wait for the run of the previous tick")
  if (schedule === undefined) return []
  if (!Array.isArray(schedule)) return [compileOne(context, schedule, ["schedule"], parts)]
  if (schedule.length > MAX_SCHEDULES) context.problems.add(["schedule"], `has more than ${MAX_SCHEDULES} entries`)
  return schedule.slice(0, MAX_SCHEDULES).map((one, i) => compileOne(context, one, ["schedule", i], parts))
}

const compileOne = (
  context: CompileContext,
  written: string | ScheduleDefinition,
  path: Path,
  { params, dependsOnPast }: { params: readonly ParamSpec[]; dependsOnPast: boolean },
): ScheduleSpec => {
  const { cron: ownCron, every, timezone = "UTC", ...rest } = typeof written === "string" ? { cron: written } : written
  const at = (field: string): Path => (typeof written === "string" ? path : [...path, field])
  if ((ownCron === undefined) === (every === undefined)) context.problems.add(path, "needs either cron or every")
  const everyMs = compileDuration(context, every, at("every")) ?? SHORTEST_INTERVAL_MS
  if (everyMs < SHORTEST_INTERVAL_MS) context.problems.add(at("every"), "must be at least 1s")
  const cron = ownCron ?? intervalExpression(Math.max(everyMs, SHORTEST_INTERVAL_MS))
  const broken = cronProblem(cron)
  if (broken !== null) context.problems.add(at("cron"), `${quote(cron)} is not a valid cron expression: ${broken}`)
  if (!isTimezone(timezone)) {
    context.problems.add(at("timezone"), `${quote(timezone)} is not a time zone; use an IANA name such as Europe/Berlin`)
  }
  for (const field of ["start", "end"] as const) {
    const problem = rest[field] === undefined ? null : dateProblem(rest[field])
    if (problem !== null) context.problems.add(at(field), problem)
  }
  checkGivenParams(context, { given: rest.params ?? {}, path, params })
  const jitterMs = compileDuration(context, rest.jitter, at("jitter"), 0)
  if (broken === null && jitterMs !== undefined && jitterMs > longestJitter(cron)) {
    const most = `${longestJitter(cron) / 1000}s`
    context.problems.add(at("jitter"), `is too long for ticks that are this close together; use at most ${most}`)
  }
  return omitUndefined({
    cron: cron.trim(),
    timezone,
    catchup: rest.catchup ?? "none",
    // Missed ticks of `catchup: all` fire at the same time, and a run that waits for the past is active: `skip` would drop their ticks.
    overlap: rest.overlap ?? (rest.catchup === "all" || dependsOnPast ? "queue" : "skip"),
    jitterMs,
    start: rest.start,
    end: rest.end,
    params: rest.params && context.template(rest.params, [...path, "params"], { node: null }),
  })
}
