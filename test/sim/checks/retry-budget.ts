// Checks whether the outcome of a committed change (success, retry, failure, cancel) is what the task's retry budget says.

import type { RunRecord, TaskRecord } from "../database/table-reader.ts"
import type { Simulation } from "../simulation.ts"
import { Violation } from "../trace.ts"
import type { TaskHistory } from "./attempt-log.ts"
import type { ResultChange } from "./commits.ts"
import { isInTimedOutGroup } from "./group-timeouts.ts"

interface Committed {
  run: RunRecord
  row: TaskRecord
  /** Without the change. */
  history: TaskHistory
  change: ResultChange
}

export const checkRetryBudget = (simulation: Simulation, { run, row, history, change }: Committed): void => {
  const simNode = simulation.simNodeOf(run.workflow, row.node)
  const { retry, lostRetries } = simNode.node
  const { state, retryable } = change.result
  const outcome = change.kind === "retry" ? "retry" : change.status
  const failed = history.applied.filter((attempt) => attempt.state === "failed" || attempt.state === "timeout").length
  const lost = history.applied.filter((attempt) => attempt.state === "lost").length
  // The engine may learn of a cancel a little later, and decides until then as if there were none.
  const isCancelling = run.cancelling !== null || simulation.commitLog.cancelled.has(run.id) || run.finished_at !== null
  const isAllowed = (): boolean => {
    if (state === "success") return outcome === "success"
    if (outcome === "cancelled") {
      const isRunStopped = (state === "cancelled" || isCancelling) && simulation.mayBeStopped(run)
      return isRunStopped || isInTimedOutGroup(simulation, row)
    }
    if (outcome === "success" || state === "cancelled") return false
    const isSpent = state === "lost" ? lost + 1 > lostRetries : retryable === false || failed + 1 >= retry.maxAttempts
    return outcome === (isSpent ? "failed" : "retry")
  }
  if (isAllowed()) return
  const budget = `${failed} of ${retry.maxAttempts} attempts failed before, ${lost} lost with ${lostRetries} allowed`
  const task = `${run.id}/${simNode.node.name}[${row.path}]`
  throw new Violation("retries stay within their budget", `${task}: ${state} became ${outcome} (${budget})`)
}
