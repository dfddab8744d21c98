// Applies changes one after the other, each under its fence: the row must still have the attempt id, and a status that the change
// may leave (core/rules/changes/transitions.ts). A change whose fence is lost has no effect and is rejected, as are later changes of the
// batch with the same attempt id.

import type { Change, Fence, Output } from "../../../core/model/change.ts"
import { isUnderGroupTimeout } from "../../../core/model/task-path.ts"
import type { SkipReason, FinalStatus } from "../../../core/model/status.ts"
import { isLegal } from "../../../core/rules/changes/transitions.ts"
import { isRestrictedLane } from "../../../core/routing/lanes.ts"
import { outputColumns } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { sourceState } from "../../shared/source-state.ts"
import { amendOverdue, deleteGroupTimeout } from "./group-timeouts.ts"
import { emitTask } from "./events.ts"
import { deleteChildren, expand } from "./expand.ts"
import { expireReleasedJob } from "../jobs/expiry.ts"
import { limitText } from "../connection/limit-column.ts"
import { addTaskNotifications } from "./notify-task.ts"
import { openGroup } from "./open-group.ts"
import type { BatchEffects } from "./batch-effects.ts"
import { type LoadedRow, loadRows } from "../cache/load-rows.ts"
import { amendJob, hasStopRequests } from "./stop-requests.ts"
import { nodeOf, workflowOf } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"
import { releaseResumed, wait } from "./waiting.ts"

/** Applies the changes and returns the fences of those that were rejected. */
export const applyChanges = (tx: Tx, effects: BatchEffects, changes: readonly Change[]): Fence[] => {
  if (changes.length === 0) return []
  const read = rowsToLoad(tx, changes)
  const loaded = loadRows(tx.db, [...read])
  const rejected = new Map<string, Fence>()
  for (const change of changes) {
    const { row, attemptId } = change
    if (rejected.has(attemptId)) continue
    // A row that was read and not found was removed with its run, and may still be cached.
    const cached = read.has(row) ? undefined : tx.inFlight.get(attemptId)
    if (cached !== undefined && !mustReadRow(tx, cached) && applyChange(tx, effects, cached, change) === "applied") continue
    // The cached row is stale or not enough: read the row, which decides.
    if (!read.has(row)) for (const [id, found] of loadRows(tx.db, [row])) loaded.set(id, found)
    read.add(row)
    if (applyChange(tx, effects, loaded.get(row), change) === "mismatch") rejected.set(attemptId, { row, attemptId })
  }
  return [...rejected.values()]
}

/**
 * Returns the rows to read. Only statements of `started` and `finish` check the cached row, so other changes need a read. Jobs are read
 * while there are stop requests, since their end deletes the request.
 */
const rowsToLoad = (tx: Tx, changes: readonly Change[]): Set<number> => {
  const rows = new Set<number>()
  const stops = hasStopRequests(tx)
  for (const { kind, row, attemptId } of changes) {
    const cached = kind === "started" || kind === "finish" ? tx.inFlight.get(attemptId) : undefined
    if (cached === undefined || (stops && isJobRow(cached.runSeq))) rows.add(row)
  }
  return rows
}

/** Returns whether a cached row is not enough: a row inside a group with a timeout may have a stop request, which its end deletes. */
const mustReadRow = (tx: Tx, row: LoadedRow): boolean =>
  row.parent !== null && isUnderGroupTimeout(workflowOf(tx, row.runSeq), row.node)

/** "mismatch": the change has had no effect, since its fence or its statement does not match this row. A row that was just read rejects it. */
type Outcome = "applied" | "mismatch"

const applyChange = (tx: Tx, effects: BatchEffects, row: LoadedRow | undefined, change: Change): Outcome => {
  if (row === undefined || row.attemptId !== change.attemptId || !isLegal(change.kind, row)) return "mismatch"
  const amended = isJobRow(row.runSeq) ? amendJob(tx, row, change) : amendOverdue(tx, effects, row, change)
  if (!writeChange(tx, effects, row, amended)) return "mismatch"
  tx.inFlight.update(change.attemptId, row)
  effects.touch(row.runSeq)
  return "applied"
}

/** Writes the change. Returns false when its statement matches no row. */
const writeChange = (tx: Tx, effects: BatchEffects, row: LoadedRow, change: Change): boolean => {
  switch (change.kind) {
    case "started":
      return start(tx, row, change)
    case "progress":
      return setProgress(tx, row, change)
    case "wait":
      return wait(tx, effects, row, change)
    case "finish":
      return finish(tx, effects, row, change)
    case "retry":
      return retry(tx, effects, row, change)
    case "skip":
      return finishAtGate(tx, effects, row, { status: "skipped", skipReason: change.skipReason, error: change.reason })
    case "fail":
      return finishAtGate(tx, effects, row, { status: "failed", error: change.error })
    case "reuse":
      return finishAtGate(tx, effects, row, { status: "success", output: change.output })
    case "gather":
      return finishAtGate(tx, effects, row, change)
    case "enqueue":
      return enqueue(tx, row, change)
    case "expand":
      return expand(tx, effects, row, change)
    case "open_group":
      return openGroup(tx, effects, row, change)
    case "requeue":
      return requeue(tx, row)
    case "release":
      return release(tx, effects, row)
    default:
      return change satisfies never
  }
}

type Of<Kind extends Change["kind"]> = Extract<Change, { kind: Kind }>

// -- attempts --------------------------------------------------------------------------------------------------------------------

const START = `
UPDATE tasks SET status = 'running', started_at = coalesce(started_at, ?), external_id = coalesce(?, external_id)
WHERE id = ? AND attempt_id = ? AND status = 'dispatched'`

/** Applies a start. A second report of it, after the reply to the first was lost, changes nothing. */
const start = (tx: Tx, row: LoadedRow, change: Of<"started">): boolean => {
  if (row.status === "running") return true
  const at = tx.iso(change.at)
  if (tx.db.run(START, at, change.externalId ?? null, row.id, change.attemptId) === 0) return false
  row.status = "running"
  emitTask(tx, row, { status: "running", at, attempt: row.attempt })
  return true
}

const PROGRESS = "UPDATE tasks SET progress = ? WHERE id = ? AND attempt_id = ?"

const setProgress = (tx: Tx, row: LoadedRow, { fraction, details, attemptId }: Of<"progress">): boolean => {
  tx.db.run(PROGRESS, JSON.stringify({ fraction, details }), row.id, attemptId)
  emitTask(tx, row, { status: row.status, at: tx.at, attempt: row.attempt, progress: { fraction, details } })
  return true
}

/** Emits the start of an attempt that was reported only with its result. */
const emitMissingStart = (tx: Tx, row: LoadedRow, at: string | null): void => {
  if (at !== null && row.status === "dispatched") emitTask(tx, row, { status: "running", at, attempt: row.attempt })
}

const FINISH = `
UPDATE tasks SET status = ?, last_attempt_state = ?, output = ?, output_key = ?, output_bytes = ?, error = ?, exit_code = ?, usage = ?,
  external_id = coalesce(?, external_id), started_at = coalesce(started_at, ?), finished_at = ?, holder = NULL
WHERE id = ? AND attempt_id = ? AND status = ? AND waiting_on IS NULL`

/** Separate from FINISH: SQLite checks the indexes of every column that a statement names. */
const FINISH_WAITING = `
UPDATE tasks SET status = ?, last_attempt_state = ?, output = ?, output_key = ?, output_bytes = ?, error = ?, exit_code = ?, usage = ?,
  external_id = coalesce(?, external_id), started_at = coalesce(started_at, ?), finished_at = ?, holder = NULL,
  waiting_on = NULL, resume_at = NULL, must_end = 0, parked = NULL
WHERE id = ? AND attempt_id = ? AND status = ? AND waiting_on IS NOT NULL`

/** A user may have changed the queue, whose slots it frees, and the name of a running job. */
const FINISH_JOB = `${FINISH} AND lane = ? AND item = ?`

const finish = (tx: Tx, effects: BatchEffects, row: LoadedRow, change: Of<"finish">): boolean => {
  const { status, result, attemptId } = change
  const isJob = isJobRow(row.runSeq)
  const { state, error = null, exitCode = null, usage, externalId = null } = result
  const startedAt = result.startedAt === null ? null : tx.iso(result.startedAt)
  const finishedAt = tx.iso(result.finishedAt)
  const output = outputColumns(result.output)
  const usageText = usage === undefined ? null : JSON.stringify(usage)
  const written = tx.db.run(
    isJob ? FINISH_JOB : row.isWaiting ? FINISH_WAITING : FINISH,
    status,
    state,
    output[0],
    output[1],
    output[2],
    error,
    exitCode,
    usageText,
    externalId,
    startedAt,
    finishedAt,
    row.id,
    attemptId,
    row.status,
    ...(isJob ? [row.lane, row.jobName] : []),
  )
  if (written === 0) return false
  emitMissingStart(tx, row, startedAt)
  if (change.cache !== undefined && status === "success") cacheOutput(tx, row, change.cache, result.output)
  row.status = status
  if (!isJob) tx.results.set(row.runSeq, row.node, row.path, { status, output: result.output ?? null })
  if (!row.isWaiting) effects.free(row)
  effects.finish(row, status, null)
  addTaskNotifications(tx, row, status)
  emitTask(tx, row, { status, at: finishedAt, attempt: row.attempt, error: result.error })
  return true
}

const CACHE = `
INSERT INTO cache (workflow_id, task, key, output, output_key, output_bytes, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workflow_id, task, key) DO UPDATE SET
  output = excluded.output, output_key = excluded.output_key, output_bytes = excluded.output_bytes, expires_at = excluded.expires_at`

const cacheOutput = (
  tx: Tx,
  row: LoadedRow,
  { key, ttlMs, output: copy }: NonNullable<Of<"finish">["cache"]>,
  result: Output | undefined,
): void => {
  const [output, outputKey, bytes] = outputColumns(copy ?? result)
  const task = nodeOf(tx, row).name
  const inline = output === null && outputKey === null ? "null" : output
  const expiresAt = ttlMs === null ? null : tx.iso(tx.now + ttlMs)
  tx.db.run(CACHE, row.workflowId, task, key, inline, outputKey, bytes, expiresAt)
}

const SUPERSEDE = `
INSERT INTO attempts (task_id, attempt, attempt_id, state, worker, external_id, exit_code, error, usage, dispatched_at, started_at,
  finished_at)
SELECT id, attempt, attempt_id, ?, worker, coalesce(?, external_id), ?, ?, ?, dispatched_at, coalesce(started_at, ?), ?
FROM tasks WHERE id = ?`

const RETRY = `
UPDATE tasks SET status = 'pending', attempt_id = NULL, holder = NULL, available_at = ?, failures = failures + ?, losses = losses + ?,
  last_attempt_state = ?, error = ?, exit_code = ?, usage = NULL, worker = NULL, external_id = NULL, dispatched_at = NULL, started_at = NULL,
  waiting_on = NULL, resume_at = NULL, must_end = 0, parked = NULL, progress = NULL
WHERE id = ? AND attempt_id = ? AND ${sourceState("retry")}`

const retry = (tx: Tx, effects: BatchEffects, row: LoadedRow, change: Of<"retry">): boolean => {
  const { result, lost } = change
  const startedAt = result.startedAt === null ? null : tx.iso(result.startedAt)
  emitMissingStart(tx, row, startedAt)
  const error = result.error ?? null
  const exitCode = result.exitCode ?? null
  const usage = result.usage === undefined ? null : JSON.stringify(result.usage)
  const finishedAt = tx.iso(result.finishedAt)
  tx.db.run(SUPERSEDE, result.state, result.externalId ?? null, exitCode, error, usage, startedAt, finishedAt, row.id)
  const availableAt = change.delayMs > 0 ? tx.iso(tx.now + change.delayMs) : null
  tx.db.run(RETRY, availableAt, lost ? 0 : 1, lost ? 1 : 0, result.state, error, exitCode, row.id, change.attemptId)
  row.status = "pending"
  row.attemptId = null
  if (!row.isWaiting) effects.free(row)
  const event = { status: "pending", at: tx.at, attempt: row.attempt, error: result.error } as const
  emitTask(tx, row, availableAt === null ? event : { ...event, availableAt })
  return true
}

const RELEASE = `
UPDATE tasks SET status = 'pending', attempt = attempt - 1, attempt_id = NULL, holder = NULL, worker = NULL, dispatched_at = NULL
WHERE id = ? AND attempt_id = ? AND status = 'dispatched'`

const RELEASE_FROM_GATE = `
UPDATE tasks SET attempt_id = NULL, holder = NULL WHERE id = ? AND attempt_id = ? AND status = 'pending'`

const release = (tx: Tx, effects: BatchEffects, row: LoadedRow): boolean => {
  if (row.status === "running") {
    releaseResumed(tx, row.id)
    return true
  }
  if (row.status === "pending") tx.db.run(RELEASE_FROM_GATE, row.id, row.attemptId)
  else {
    tx.db.run(RELEASE, row.id, row.attemptId)
    row.status = "pending"
    row.attempt--
    effects.free(row)
    emitTask(tx, row, { status: "pending", at: tx.at, attempt: row.attempt })
    if (isJobRow(row.runSeq)) expireReleasedJob(tx, effects, row.id)
  }
  row.attemptId = null
  return true
}

const REQUEUE = `
UPDATE tasks SET status = 'pending', attempt = attempt - 1, attempt_id = NULL, holder = NULL, worker = NULL, dispatched_at = NULL,
  waiting_on = NULL, resume_at = NULL, must_end = 0
WHERE id = ? AND attempt_id = ? AND waiting_on IS NOT NULL`

/** Wakes other processes: one of them may have the function that the row calls. */
const requeue = (tx: Tx, row: LoadedRow): boolean => {
  tx.db.run(REQUEUE, row.id, row.attemptId)
  tx.wake.noteWorkLeft()
  row.status = "pending"
  row.attempt--
  row.attemptId = null
  row.isWaiting = false
  return true
}

// -- decisions of the gate -------------------------------------------------------------------------------------------------------

const FINISH_AT_GATE = `
UPDATE tasks SET status = ?, skip_reason = ?, error = ?, output = ?, output_key = ?, output_bytes = ?, finished_at = ?,
  attempt_id = NULL, holder = NULL
WHERE id = ? AND attempt_id = ? AND status = 'pending'`

interface GateFinish {
  status: FinalStatus
  skipReason?: SkipReason
  error?: string
  output?: Of<"reuse">["output"]
}

/** Finishes a row without an attempt. */
const finishAtGate = (tx: Tx, effects: BatchEffects, row: LoadedRow, decision: GateFinish): boolean => {
  const { status, skipReason = null, error, output } = decision
  tx.db.run(FINISH_AT_GATE, status, skipReason, error ?? null, ...outputColumns(output), tx.at, row.id, row.attemptId)
  row.status = status
  row.attemptId = null
  if (row.kind !== "task" && row.childrenCreated === 0) deleteChildren(tx, effects, row, 0)
  if (row.kind === "group") {
    // A group uses slots from its opening on, or from the moment when a retry continues it.
    if (row.hasStartTime) effects.free(row)
    else effects.unparkInPlaceOf(row.limits)
    deleteGroupTimeout(tx, row)
  }
  effects.finish(row, status, skipReason)
  addTaskNotifications(tx, row, status)
  emitTask(tx, row, { status, at: tx.at, attempt: row.attempt, error })
  return true
}

const ENQUEUE = `
UPDATE tasks SET lane = ?, limits = ?, attempt_id = NULL, holder = NULL WHERE id = ? AND attempt_id = ? AND status = 'pending'`

const enqueue = (tx: Tx, row: LoadedRow, change: Of<"enqueue">): boolean => {
  tx.db.run(ENQUEUE, change.lane, limitText(tx.limits.ensure(change.limits)), row.id, change.attemptId)
  if (isRestrictedLane(change.lane)) tx.wake.noteWorkLeft()
  row.attemptId = null
  return true
}
