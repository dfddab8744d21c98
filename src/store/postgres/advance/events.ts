// Emits the events of a turn: one per change of the status of a run, a task or a job, in order.

import { iso } from "../../../core/model/ports.ts"
import { renewalEmitsEvent, waitingView } from "../../../core/model/waiting-on.ts"
import { isJobRow, jobStatus } from "../../shared/job-rows.ts"
import { jobEvent, jobOfRow, type TaskEvent, taskEvent } from "../../shared/events.ts"
import type { StoreEvent } from "../../contract/store.ts"
import type { RunInfo } from "../cache/cache.ts"
import { nodeOf } from "../cache/workflows.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import type { Tx } from "../tx.ts"
import type { AppliedChanges, AppliedUpdate, AttemptUpdate } from "./apply-changes.ts"
import type { CancelledRow } from "./cancel-pending.ts"
import type { CloseResult } from "./close-runs.ts"

interface TaskOfRun {
  runId: StoreEvent["runId"]
  versionId: number
  node: number
  path: string
}

const emitTask = ({ workflows, events }: Tx, task: TaskOfRun, event: TaskEvent): void => {
  events.push(taskEvent({ runId: task.runId, task: nodeOf(workflows, task).name, path: task.path }, event))
}

/** Emits the event of a job. A job is RUNNING from its claim on: its start emits nothing. */
const emitJob = ({ events }: Tx, row: Parameters<typeof jobOfRow>[0], event: TaskEvent): void => {
  if (event.status !== "running" || event.progress !== undefined)
    events.push(jobEvent(jobOfRow(row), jobStatus(event.status), event))
}

/** Formats instants. Results of one batch mostly share their milliseconds. */
const isoMemo = (): ((ms: number) => string) => {
  let last = Number.NaN
  let text = ""
  return (ms) => {
    if (ms !== last) [last, text] = [ms, iso(ms)]
    return text
  }
}

type Emit = (event: TaskEvent) => void

/** Emits the events of updates whose fence held. `at`: the instant of the transaction. */
export const emitChanges = (
  tx: Tx,
  at: string,
  updates: readonly AttemptUpdate[],
  { outcomes, expanded }: Pick<AppliedChanges, "outcomes" | "expanded">,
): void => {
  const format = isoMemo()
  for (const update of updates) {
    const { inFlight, attempt: changes, deleted } = update
    const { attempt } = inFlight
    const emit: Emit = (event) => {
      if (!isJobRow(inFlight.runSeq)) emitTask(tx, inFlight, event)
      else if (deleted !== true) emitJob(tx, inFlight, event)
    }
    if (expanded.has(changes)) {
      const { kind, total } = changes.expands[0]!
      emit({ status: "running", at, attempt, ...(kind === "expand" && { total }) })
    }
    const outcome = outcomes.get(changes)
    if (outcome === undefined) continue
    if (changes.start !== null && !inFlight.started) emit({ status: "running", at: format(changes.start.at), attempt })
    if (changes.progress !== null) {
      const { fraction, details } = changes.progress
      const status = inFlight.started || changes.start !== null ? "running" : "dispatched"
      emit({ status, at, attempt, progress: { fraction, details } })
    }
    emitLast(emit, update, { at, format, outcome })
  }
}

const emitLast = (
  emit: Emit,
  { inFlight, attempt: { start, last } }: AttemptUpdate,
  { at, format, outcome }: { at: string; format: (ms: number) => string; outcome: AppliedUpdate },
): void => {
  const { attempt, usesSlots, started } = inFlight
  switch (last?.kind) {
    case "wait": {
      const { startedAt, resumeAt } = outcome.wait!
      if (!usesSlots && started && !renewalEmitsEvent(last.waitingOn)) break
      const waiting = waitingView(last.waitingOn, resumeAt)
      emit({
        status: "running",
        at: started ? at : startedAt,
        attempt: !usesSlots && !started ? attempt + 1 : attempt,
        waiting,
      })
      break
    }
    case "finish":
    case "retry": {
      const { startedAt, finishedAt, error } = last.result
      // A start that was not reported by itself comes before the finish.
      if (startedAt !== null && !started && start === null) emit({ status: "running", at: format(startedAt), attempt })
      const { availableAt } = outcome
      if (last.kind === "finish") emit({ status: last.status, at: format(finishedAt), attempt, error })
      else emit({ status: "pending", at, attempt, error, ...(availableAt !== null && { availableAt }) })
      break
    }
    case "skip":
      emit({ status: "skipped", at, attempt, error: last.reason })
      break
    case "fail":
      emit({ status: "failed", at, attempt, error: last.error })
      break
    case "reuse":
      emit({ status: "success", at, attempt })
      break
    case "gather":
      emit({ status: last.status, at, attempt, error: last.error })
      break
    case "release":
      if (usesSlots) emit({ status: "pending", at, attempt: attempt - 1 })
      break
    case "enqueue":
    case "requeue":
    case undefined:
      break
    default:
      last satisfies never
  }
}

export const emitCancelled = (tx: Tx, at: string, rows: readonly CancelledRow[], runs: ReadonlyMap<number, RunInfo>): void => {
  for (const { run_seq, node, path, attempt } of rows) {
    const { id: runId, versionId } = runs.get(run_seq)!
    emitTask(tx, { runId, versionId, node, path }, { status: "cancelled", at, attempt })
  }
}

export const emitClosed = ({ events }: Tx, at: string, closed: CloseResult): void => {
  for (const { runId, status, error } of closed.runs)
    events.push({ type: "run", runId, status, at, ...(error === null ? {} : { error }) })
  for (const { id } of closed.started) events.push({ type: "run", runId: id, status: "running", at })
}

export const emitClaims = (tx: Tx, at: string, claimed: readonly ClaimedRow[]): void => {
  for (const { run_seq, run_id: runId, version_id: versionId, node, path, attempt, item: jobName, lane } of claimed)
    if (isJobRow(run_seq)) emitJob(tx, { path, jobName, lane }, { status: "dispatched", at, attempt })
    else emitTask(tx, { runId, versionId, node, path }, { status: "dispatched", at, attempt })
}
