// Success, retry, failure or cancel: whether a committed change is what the budgets of its task say.

import type { Change } from "../../../src/core/model/change.ts"
import type { RunRecord, TaskRecord } from "../database/table-reader.ts"
import { isOverdue } from "./group-timeouts.ts"
import { Violation } from "../trace.ts"
import type { History } from "./attempt-log.ts"
import type { World } from "../simulation.ts"

type Settling = Extract<Change, { kind: "finish" | "retry" }>

/** Called before the change is added to the history. */
export const checkDecision = (world: World, run: RunRecord, row: TaskRecord, history: History, change: Settling): void => {
  const sim = world.simOf(run.workflow, row.node)
  const { retry, lostRetries } = sim.node
  const { state, retryable } = change.result
  const became = change.kind === "retry" ? "retry" : change.status
  const failed = history.applied.filter((end) => end.state === "failed" || end.state === "timeout").length
  const lost = history.applied.filter((end) => end.state === "lost").length
  // The engine may hear of a cancel a little later: until then it decides as if there were none.
  const cancelling = run.cancelling !== null || world.commits.cancelled.has(run.id) || run.finished_at !== null
  const overdue = isOverdue(world, row)
  const isAllowed = (): boolean => {
    if (state === "success") return became === "success"
    if (became === "cancelled") return overdue || ((state === "cancelled" || cancelling) && world.mayStop(run))
    if (became === "success" || state === "cancelled") return false
    const spent = state === "lost" ? lost + 1 > lostRetries : retryable === false || failed + 1 >= retry.maxAttempts
    return became === (spent ? "failed" : "retry")
  }
  if (isAllowed()) return
  const budget = `${failed} of ${retry.maxAttempts} attempts failed before, ${lost} lost with ${lostRetries} allowed`
  const place = `${run.id}/${sim.node.name}[${row.path}]`
  throw new Violation("retries stay within their budget", `${place}: ${state} became ${became} (${budget})`)
}
