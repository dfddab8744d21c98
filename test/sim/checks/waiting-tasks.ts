// Checks how a task that waited without a slot (sleep, approval, sub-workflow, callback, condition) has finished.

import { isDeepStrictEqual } from "node:util"
import type { TaskRecord } from "../database/table-reader.ts"
import { waitOutput } from "../scenario/waiting-tasks.ts"
import type { SimNode } from "../scenario/workflows.ts"
import type { Simulation } from "../simulation.ts"
import { type AppliedResult, isDeferred } from "./attempt-log.ts"

/** Returns why a waiting task cannot have finished with this state; null: it can. */
export const explainWrongWait = (
  simulation: Simulation,
  simNode: SimNode,
  row: TaskRecord,
  { state, elapsed }: AppliedResult,
): string | null => {
  const plan = simNode.waitPlan!
  const { timeoutMs } = simNode.node
  const waitedMs = longestWait(simulation, row.attempt_id!, elapsed)
  const hasTimedOut = timeoutMs !== null && waitedMs >= timeoutMs
  const signals = simulation.signalsTo(row.attempt_id!)
  if (state === "lost" && plan.kind !== "defer") return "no holder can lose it"
  switch (plan.kind) {
    case "sleep":
      if (state === "success") return waitedMs >= plan.ms ? null : `it slept ${waitedMs} of ${plan.ms} ms`
      return timeoutMs !== null && timeoutMs <= plan.ms ? null : `its timeout is ${timeoutMs}`
    case "approval": {
      const isApproved = state === "success"
      const isDefault = hasTimedOut && plan.default === (isApproved ? "approve" : "reject")
      if (state === "timeout") return hasTimedOut && plan.default === null ? null : "its timeout has not passed"
      return isDefault || signals.some(({ positive }) => positive === isApproved) ? null : "no user decided so"
    }
    case "workflow": {
      const child = simulation.tables.childRun(row.attempt_id!)
      if (state === "timeout") return hasTimedOut ? null : "its timeout has not passed"
      return child?.status === state ? null : `its run is ${child?.status}`
    }
    case "wait":
      if (state === "timeout") return hasTimedOut ? null : "its timeout has not passed"
      if (state !== "success") return "its condition cannot fail"
      if (elapsed < plan.appearsAtMs) return `its condition holds from ${plan.appearsAtMs} ms on, not from ${elapsed} ms on`
      return isDeepStrictEqual(simulation.model.output(row), waitOutput(plan)) ? null : "its output is not what the check found"
    case "defer":
      return explainWrongDefer(simulation, row, state)
    default:
      return plan satisfies never
  }
}

/** Returns how long an attempt that ended at `elapsed` has waited at most, by timers or by the time of day, which may be set meanwhile. */
const longestWait = ({ commitLog, clock, scenario }: Simulation, attemptId: string, elapsed: number): number => {
  const began = commitLog.waits.get(attemptId)
  if (began === undefined) return 0
  const waitedMs = elapsed - began.elapsed
  return scenario.clockSteps.length === 0 ? waitedMs : Math.max(waitedMs, clock.latest - began.at)
}

const explainWrongDefer = (simulation: Simulation, row: TaskRecord, state: string): string | null => {
  const signals = simulation.signalsTo(row.attempt_id!)
  const attempt = simulation.attemptLog.attempts.get(row.attempt_id!)
  // The attempt failed before its launch.
  if (attempt === undefined) return null
  // Its engine shut down, or its holder was given up before the result was committed.
  if (state === "lost")
    return simulation.isAbandoned(attempt) || attempt.result?.state === "lost" ? null : "its holder is alive"
  if (!isDeferred(attempt)) return attempt.result?.state === state ? null : "its task reported another state"
  const isReported =
    state === "failed"
      ? signals.some(({ positive }) => !positive)
      : signals.some(({ positive, output }) => positive && isDeepStrictEqual(output, simulation.model.output(row)))
  return isReported ? null : "no callback reported this"
}
