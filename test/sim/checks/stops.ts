// Checks that an attempt is stopped only for a reason: its timeout or that of a group around it, a cancelled run, the shutdown of its
// engine, or a fence that another attempt holds.

import type { StopReason } from "../../../src/executors/executor.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import { describeTask, type LaunchedAttempt } from "./attempt-log.ts"
import { isInTimedOutGroup } from "./group-timeouts.ts"

export const checkStop = (simulation: Simulation, attempt: LaunchedAttempt, reason: StopReason): void => {
  if (isJustified(simulation, attempt, reason)) return
  throw new Violation("no task is stopped without a reason", `${describeTask(attempt)} #${attempt.number}: ${reason}`)
}

const isJustified = (simulation: Simulation, attempt: LaunchedAttempt, reason: StopReason): boolean => {
  const { tables, clock, commitLog } = simulation
  const run = tables.run(attempt.runId)
  if (run === undefined) return commitLog.removals.has(attempt.runId)
  const row = tables.task(run.seq, attempt.simNode.index, attempt.path)
  switch (reason) {
    case "cancel":
      return commitLog.cancelled.has(attempt.runId) || isInTimedOutGroup(simulation, row!)
    case "shutdown":
      return attempt.process.draining
    case "lost":
      return simulation.isAbandoned(attempt) || row?.attempt_id !== attempt.id
    case "timeout": {
      const { timeoutMs, startTimeoutMs } = attempt.simNode.node
      const [since, limit] = attempt.startedAt === null ? [attempt.launchedAt, startTimeoutMs] : [attempt.startedAt, timeoutMs]
      return (limit !== null && clock.elapsed >= since + limit) || simulation.mayBeStopped(run)
    }
    default:
      return reason satisfies never
  }
}
