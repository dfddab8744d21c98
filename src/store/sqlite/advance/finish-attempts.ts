// Changes, one after the other, each under its fence: the row still has that attempt id and a status that the change may
// leave. A change whose fence is lost has no effect and is reported; so is every later one of the batch under the same fence.

import type { Change, Fence } from "../../../core/model/change.ts"
import { hasGroupTimeout } from "../../../core/model/task-path.ts"
import type { TaskEnd } from "../../../core/model/status.ts"
import { isLegal } from "../../../core/rules/transitions.ts"
import { type OutputColumns, outputColumns } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { sourceState } from "../../shared/source-state.ts"
import { deleteDeadline, amendOverdue } from "./group-deadlines.ts"
import { emitTask } from "./events.ts"
import { dropChildren, expand } from "./expand.ts"
import { limitText } from "../claim/limits.ts"
import { openGroup } from "./open-group.ts"
import type { Effects } from "./unblock.ts"
import { type LoadedRow, loadRows, ROOM } from "../runs/insert-rows.ts"
import { amendJob } from "./stop-requests.ts"
import type { Tx } from "../connection/tx.ts"
import { releaseResumed, wait } from "./waiting.ts"

export const applyChanges = (tx: Tx, effects: Effects, changes: readonly Change[]): Fence[] => {
  if (changes.length === 0) return []
  const rows = loadRows(tx, [...unknown(tx, changes)])
  const refused = new Map<string, Fence>()
  for (const change of changes) {
    const { row, attemptId } = change
    if (refused.has(attemptId)) continue
    const read = rows.get(row)
    const known = read ?? tx.inFlight.get(attemptId)
    if ((read !== undefined || !mayBeStopped(tx, known)) && settled(tx, effects, known, change)) continue
    if (read === undefined) for (const [id, found] of loadRows(tx, [row])) rows.set(id, found)
    if (read !== undefined || !settled(tx, effects, rows.get(row), change)) refused.set(attemptId, { row, attemptId })
  }
  return [...refused.values()]
}

/** The rows to read: of changes that do not check by themselves what they take for granted, or whose row is not known. */
const unknown = (tx: Tx, changes: readonly Change[]): Set<number> => {
  const rows = new Set<number>()
  for (const { kind, row, attemptId } of changes)
    if ((kind !== "started" && kind !== "finish") || !tx.inFlight.has(attemptId)) rows.add(row)
  return rows
}

/** Then it is read first, since its stop goes with its end. */
const mayBeStopped = (tx: Tx, row: LoadedRow | undefined): boolean =>
  row !== undefined && row.parent !== null && hasGroupTimeout(tx.versions.get(tx.runs.get(row.runSeq).versionId), row.node)

const settled = (tx: Tx, effects: Effects, row: LoadedRow | undefined, change: Change): boolean => {
  if (row === undefined || row.attemptId !== change.attemptId || !isLegal(change.kind, row)) return false
  const amended = isJobRow(row.runSeq) ? amendJob(tx, row, change) : amendOverdue(tx, effects, row, change)
  if (!apply(tx, effects, row, amended)) return false
  tx.inFlight.keep(change.attemptId, row)
  effects.touch(row.runSeq)
  return true
}

const apply = (tx: Tx, effects: Effects, row: LoadedRow, change: Change): boolean => {
  switch (change.kind) {
    case "started":
      return start(tx, row, change)
    case "progress":
      return progress(tx, row, change)
    case "wait":
      return wait(tx, effects, row, change)
    case "finish":
      return end(tx, effects, row, change)
    case "retry":
      return retry(tx, effects, row, change)
    case "skip":
      return judge(tx, effects, row, { status: "skipped", skip: change.skipReason, error: change.reason })
    case "fail":
      return judge(tx, effects, row, { status: "failed", error: change.error })
    case "reuse":
      return judge(tx, effects, row, { status: "success", output: change.output })
    case "gather":
      return judge(tx, effects, row, change)
    case "enqueue":
      return admitRow(tx, row, change)
    case "expand":
      return expand(tx, effects, row, change)
    case "open_group":
      return openGroup(tx, effects, row, change)
    case "release":
      return release(tx, effects, row)
    default:
      return change satisfies never
  }
}

type Of<Kind extends Change["kind"]> = Extract<Change, { kind: Kind }>

const START = `
UPDATE tasks SET status = 'running', started_at = ?, external_id = coalesce(?, external_id)
WHERE id = ? AND attempt_id = ? AND status = 'dispatched'`

/** Told again (the answer to the first time was lost): it holds, and changes nothing. */
const start = (tx: Tx, row: LoadedRow, change: Of<"started">): boolean => {
  if (row.status === "running") return true
  const at = tx.iso(change.at)
  if (tx.db.run(START, at, change.externalId ?? null, row.id, change.attemptId) === 0) return false
  row.status = "running"
  emitTask(tx, row, { status: "running", at, attempt: row.attempt })
  return true
}

const PROGRESS = "UPDATE tasks SET progress = ? WHERE id = ? AND attempt_id = ?"

const progress = (tx: Tx, row: LoadedRow, { fraction, details, attemptId }: Of<"progress">): boolean => {
  tx.db.run(PROGRESS, JSON.stringify({ fraction, details }), row.id, attemptId)
  emitTask(tx, row, { status: row.status, at: tx.at, attempt: row.attempt, progress: { fraction, details } })
  return true
}

/** A start that was not reported on its own is told before the end. */
const tellFoldedStart = (tx: Tx, row: LoadedRow, at: string | null): void => {
  if (at !== null && row.status === "dispatched") emitTask(tx, row, { status: "running", at, attempt: row.attempt })
}

const ENDED = (more: string, waitingOn: string): string => `
UPDATE tasks SET status = ?, outcome = ?, output = ?, output_key = ?, output_bytes = ?, error = ?, exit_code = ?, usage = ?,
  external_id = coalesce(?, external_id), started_at = coalesce(?, started_at), finished_at = ?, holder = NULL,
  room = ${ROOM.ended}${more}
WHERE id = ? AND attempt_id = ? AND status = ? AND waiting_on IS ${waitingOn}`

const END = ENDED("", "NULL")
/** Apart: every column that is named costs a look at its indexes. */
const END_WAITING = ENDED(", waiting_on = NULL, resume_at = NULL, cancel_requested = 0, parked = NULL", "NOT NULL")

/** For results with nothing but an output: each value that is bound costs as much as a column that is written. */
const SUCCEED = `
UPDATE tasks SET status = 'success', outcome = 'success', output = ?, started_at = coalesce(?, started_at), finished_at = ?,
  holder = NULL, room = ${ROOM.ended}
WHERE id = ? AND attempt_id = ? AND status = ? AND waiting_on IS NULL`

/** How many rows it changed. */
const write = (
  { db }: Tx,
  row: LoadedRow,
  { status, result, attemptId }: Of<"finish">,
  [output, key, bytes]: OutputColumns,
  startedAt: string | null,
  finishedAt: string,
): number => {
  const { state, error = null, exitCode = null, usage, externalId = null } = result
  const bare = key === null && error === null && exitCode === null && usage === undefined && externalId === null
  if (bare && state === "success" && status === "success" && !row.isWaiting)
    return db.run(SUCCEED, output, startedAt, finishedAt, row.id, attemptId, row.status)
  const used = usage === undefined ? null : JSON.stringify(usage)
  const told = [status, state, output, key, bytes, error, exitCode, used, externalId, startedAt, finishedAt]
  return db.run(row.isWaiting ? END_WAITING : END, ...told, row.id, attemptId, row.status)
}

const end = (tx: Tx, effects: Effects, row: LoadedRow, change: Of<"finish">): boolean => {
  const { status, result } = change
  const startedAt = result.startedAt === null ? null : tx.iso(result.startedAt)
  const finishedAt = tx.iso(result.finishedAt)
  const columns = outputColumns(result.output)
  if (write(tx, row, change, columns, startedAt, finishedAt) === 0) return false
  tellFoldedStart(tx, row, startedAt)
  if (change.cache !== undefined && status === "success") keep(tx, row, change.cache, columns)
  row.status = status
  tx.results.set(row.runSeq, row.node, row.path, { status, output: result.output ?? null })
  if (!row.isWaiting) effects.freed(row)
  effects.ended(row, status, null, true)
  emitTask(tx, row, { status, at: finishedAt, attempt: row.attempt, error: result.error })
  return true
}

const KEEP = `
INSERT INTO cache (workflow_id, task, key, output, output_key, output_bytes, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workflow_id, task, key) DO UPDATE SET
  output = excluded.output, output_key = excluded.output_key, output_bytes = excluded.output_bytes, expires_at = excluded.expires_at`

const keep = (
  tx: Tx,
  row: LoadedRow,
  cache: { key: string; ttlMs: number | null },
  [output, key, bytes]: ReturnType<typeof outputColumns>,
): void => {
  const task = tx.versions.get(tx.runs.get(row.runSeq).versionId).nodes[row.node]!.name
  const inline = output === null && key === null ? "null" : output
  const expiresAt = cache.ttlMs === null ? null : tx.iso(tx.now + cache.ttlMs)
  tx.db.run(KEEP, row.workflowId, task, cache.key, inline, key, bytes, expiresAt)
}

const SUPERSEDE = `
INSERT INTO attempts (task_id, attempt, attempt_id, state, worker, external_id, exit_code, error, usage, dispatched_at, started_at,
  finished_at)
SELECT id, attempt, attempt_id, ?, worker, coalesce(?, external_id), ?, ?, ?, dispatched_at, coalesce(?, started_at), ?
FROM tasks WHERE id = ?`

const RETRY = `
UPDATE tasks SET status = 'pending', attempt_id = NULL, holder = NULL, available_at = ?, failures = failures + ?, losses = losses + ?,
  outcome = ?, error = ?, exit_code = ?, usage = NULL, worker = NULL, external_id = NULL, dispatched_at = NULL, started_at = NULL,
  waiting_on = NULL, resume_at = NULL, cancel_requested = 0, parked = NULL, progress = NULL
WHERE id = ? AND attempt_id = ? AND ${sourceState("retry")}`

const retry = (tx: Tx, effects: Effects, row: LoadedRow, change: Of<"retry">): boolean => {
  const { result, lost } = change
  const startedAt = result.startedAt === null ? null : tx.iso(result.startedAt)
  tellFoldedStart(tx, row, startedAt)
  const error = result.error ?? null
  const exitCode = result.exitCode ?? null
  const usage = result.usage === undefined ? null : JSON.stringify(result.usage)
  const finishedAt = tx.iso(result.finishedAt)
  tx.db.run(SUPERSEDE, result.state, result.externalId ?? null, exitCode, error, usage, startedAt, finishedAt, row.id)
  const availableAt = change.delayMs > 0 ? tx.iso(tx.now + change.delayMs) : null
  tx.db.run(RETRY, availableAt, lost ? 0 : 1, lost ? 1 : 0, result.state, error, exitCode, row.id, change.attemptId)
  row.status = "pending"
  row.attemptId = null
  if (!row.isWaiting) effects.freed(row)
  const told = { status: "pending", at: tx.at, attempt: row.attempt, error: result.error } as const
  emitTask(tx, row, availableAt === null ? told : { ...told, availableAt })
  return true
}

const JUDGE = `
UPDATE tasks SET status = ?, skip_reason = ?, error = ?, output = ?, output_key = ?, output_bytes = ?, finished_at = ?,
  attempt_id = NULL, holder = NULL, room = ${ROOM.ended}
WHERE id = ? AND attempt_id = ? AND status = 'pending'`

interface Verdict {
  status: TaskEnd
  skip?: "unmet" | "waived"
  error?: string
  output?: Of<"reuse">["output"]
}

/** The gate ends a row without an attempt. */
const judge = (tx: Tx, effects: Effects, row: LoadedRow, { status, skip, error, output }: Verdict): boolean => {
  tx.db.run(JUDGE, status, skip ?? null, error ?? null, ...outputColumns(output), tx.at, row.id, row.attemptId)
  row.status = status
  row.attemptId = null
  if (row.kind !== "task" && row.childrenCreated === 0) dropChildren(tx, effects, row, 0)
  if (row.kind === "group") {
    leave(effects, row)
    deleteDeadline(tx, row)
  }
  effects.ended(row, status, skip ?? null, true)
  emitTask(tx, row, { status, at: tx.at, attempt: row.attempt, error })
  return true
}

/** A group holds its slots from its opening on; one that a retry goes on with, once it has them again. */
const leave = (effects: Effects, row: LoadedRow): void => {
  if (row.started) effects.freed(row)
  else effects.passedOn(row.limits)
}

const ADMIT = `
UPDATE tasks SET lane = ?, limits = ?, attempt_id = NULL, holder = NULL WHERE id = ? AND attempt_id = ? AND status = 'pending'`

const admitRow = (tx: Tx, row: LoadedRow, change: Of<"enqueue">): boolean => {
  tx.db.run(ADMIT, change.lane, limitText(tx.limits.ensure(change.limits)), row.id, change.attemptId)
  row.attemptId = null
  return true
}

const GIVE_BACK = `
UPDATE tasks SET status = 'pending', attempt = attempt - 1, attempt_id = NULL, holder = NULL, worker = NULL, dispatched_at = NULL
WHERE id = ? AND attempt_id = ? AND status = 'dispatched'`

const GIVE_BACK_GATE = `
UPDATE tasks SET attempt_id = NULL, holder = NULL WHERE id = ? AND attempt_id = ? AND status = 'pending'`

const release = (tx: Tx, effects: Effects, row: LoadedRow): boolean => {
  if (row.status === "running") {
    releaseResumed(tx, row.id)
    return true
  }
  if (row.status === "pending") tx.db.run(GIVE_BACK_GATE, row.id, row.attemptId)
  else {
    tx.db.run(GIVE_BACK, row.id, row.attemptId)
    row.status = "pending"
    row.attempt--
    effects.freed(row)
    emitTask(tx, row, { status: "pending", at: tx.at, attempt: row.attempt })
  }
  row.attemptId = null
  return true
}
