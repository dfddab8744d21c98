// Running rows that hold no slot: how they come to wait, who wakes them, and how those that are due are given out again. A row
// waits while `holder` is NULL; one that was woken is held like a gate's, under the id of its attempt.

import type { Change } from "../../../core/model/change.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { renewalEmitsEvent, waitingView, type WaitingOn } from "../../../core/model/waiting-on.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { CANDIDATE, type Columns as CandidateColumns, candidateOf, runStates } from "../claim/candidates.ts"
import { type ClaimedRow, toTaskClaims } from "../claim/to-claims.ts"
import type { ClaimResult, Claimer, ClaimRequest } from "../claim/claim.ts"
import { emitTask } from "./events.ts"
import type { Effects } from "./unblock.ts"
import type { LoadedRow } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"

/** What woke a row while it was held stays: it is due again at once. */
const WAIT = `
UPDATE tasks SET status = 'running', attempt = attempt + ?1, waiting_on = ?2, resume_at = min(coalesce(resume_at, ?3), ?3), resume_lane = ?4,
  holder = NULL, dispatched_at = coalesce(dispatched_at, ?5), started_at = coalesce(?6, started_at), progress = NULL,
  outcome = NULL, error = NULL, exit_code = NULL
WHERE id = ?7 AND attempt_id = ?8`

const WAIT_FOR_EVENT = WAIT.replace("min(coalesce(resume_at, ?3), ?3)", "coalesce(resume_at, ?3)")

export const wait = (tx: Tx, effects: Effects, row: LoadedRow, change: Extract<Change, { kind: "wait" }>): boolean => {
  if (isJobRow(row.runSeq)) return false
  const { waitingOn, delayMs } = change
  const begins = row.status === "pending"
  const wakeAt = delayMs === null ? null : tx.iso(tx.now + Math.max(0, Math.ceil(delayMs)))
  const startedAt =
    change.startedAt !== undefined ? tx.iso(change.startedAt) : begins || row.status === "dispatched" ? tx.at : null
  const lane = gateLane(tx.runs.get(row.runSeq))
  const values = [begins ? 1 : 0, JSON.stringify(waitingOn), wakeAt, lane, tx.at, startedAt, row.id, change.attemptId] as const
  tx.db.run(wakeAt === null ? WAIT_FOR_EVENT : WAIT, ...values)
  if (!begins && !row.isWaiting) effects.freed(row)
  const told = !row.isWaiting || renewalEmitsEvent(waitingOn)
  if (begins) row.attempt++
  row.status = "running"
  row.isWaiting = true
  if (!told) return true
  emitTask(tx, row, {
    status: "running",
    at: startedAt ?? tx.at,
    attempt: row.attempt,
    waiting: waitingView(waitingOn, wakeAt),
  })
  return true
}

const DUE = `
SELECT ${CANDIDATE}, attempt_id, waiting_on, started_at, lane, cancel_requested FROM tasks INDEXED BY tasks_resume
WHERE resume_at IS NOT NULL AND holder IS NULL AND resume_lane = ? AND resume_at <= ? ORDER BY resume_at, id LIMIT ? + 0`

type Woken = [attemptId: ClaimedRow["attemptId"], waits: string, startedAt: string, lane: string, stopping: number]
type Columns = [...CandidateColumns, ...Woken]

const HOLD = "UPDATE tasks SET holder = ?, resume_at = NULL WHERE id = ?"

/** Until the run goes on. */
const PARK = "UPDATE tasks SET parked = 0, resume_at = NULL WHERE id = ?"

/** Waiting rows that are due; those of a paused run wait for its resumption. */
export const claimResumed = (tx: Tx, taker: Claimer, wanted: ClaimRequest): ClaimResult<TaskClaim> => {
  if (taker === null || wanted.limit <= 0) return { claims: [], more: false }
  const taken: ClaimedRow[] = []
  const stateOf = runStates(tx)
  let seen = 0
  for (const wakeLane of wanted.lanes) {
    for (const columns of tx.db.all<Columns>(DUE, wakeLane, tx.at, wanted.limit - seen)) {
      seen++
      const [attemptId, waits, startedAt, lane, stopping] = columns.slice(-5) as Woken
      const row = candidateOf(columns as unknown as CandidateColumns, lane, stateOf(columns[1]))
      if (row.run.paused && row.run.cancelling === null && stopping === 0) {
        tx.db.run(PARK, row.row)
        continue
      }
      tx.db.run(HOLD, taker.seq, row.row)
      taken.push({ ...row, attemptId, waitingOn: waitingOnOf(tx, waits, startedAt, stopping === 1) })
    }
  }
  return { claims: toTaskClaims(tx, taken), more: seen === wanted.limit }
}

export const waitingOnOf = (
  tx: Tx,
  waits: string | null,
  startedAt: string | null,
  stopping = false,
): TaskClaim["waitingOn"] => {
  if (waits === null || startedAt === null) return null
  return {
    for: JSON.parse(waits) as WaitingOn,
    elapsedMs: Math.max(0, tx.now - Date.parse(startedAt)),
    ...(stopping && { cancelRequested: stopping }),
  }
}

const NEXT = `
SELECT resume_at FROM tasks INDEXED BY tasks_resume
WHERE resume_at IS NOT NULL AND holder IS NULL AND resume_lane = ? ORDER BY resume_at LIMIT 1`

/** Milliseconds until the next row of these lanes is due, or null. */
export const nextResumeMs = (tx: Tx, lanes: readonly string[]): number | null => {
  const due = lanes.flatMap((lane) => tx.db.get<[string]>(NEXT, lane)?.[0] ?? [])
  return due.length === 0 ? null : Math.max(0, Math.min(...due.map((at) => Date.parse(at))) - tx.now)
}

const WAKE = "UPDATE tasks SET resume_at = ? WHERE id = ? AND waiting_on IS NOT NULL AND parked IS NULL"

/** Its child run has ended. */
export const resumeParent = (tx: Tx, row: number): void => {
  tx.db.run(WAKE, tx.at, row)
}

const WAKE_CANCELLED = `
UPDATE tasks SET resume_at = ?1, cancel_requested = 1, parked = NULL WHERE id IN (
  SELECT id FROM tasks INDEXED BY tasks_waiting WHERE run_seq = ?2 AND waiting_on IS NOT NULL AND cancel_requested = 0 ORDER BY id LIMIT ?3 + 0)`

const WAKE_STOPPED =
  "UPDATE tasks SET resume_at = ?, cancel_requested = 1, parked = NULL WHERE id = ? AND waiting_on IS NOT NULL"

/** It lies in a group that is overdue. */
export const resumeStopped = (tx: Tx, row: number): void => {
  tx.db.run(WAKE_STOPPED, tx.at, row)
}

/** The run is being cancelled: what waits is due, once. Returns how many there were. */
export const resumeCancelled = (tx: Tx, runSeq: number, limit: number): number =>
  tx.db.run(WAKE_CANCELLED, tx.at, runSeq, limit)

const WAKE_RESUMED = `
UPDATE tasks INDEXED BY tasks_waiting SET resume_at = ?, parked = NULL WHERE run_seq = ? AND waiting_on IS NOT NULL AND parked = 0`

export const resumeUnpaused = (tx: Tx, runSeq: number): void => {
  tx.db.run(WAKE_RESUMED, tx.at, runSeq)
}

const LET_GO = "UPDATE tasks SET holder = NULL, resume_at = ? WHERE id = ? AND waiting_on IS NOT NULL"

/** Whoever had it woken gave it back. */
export const releaseResumed = (tx: Tx, row: number): void => {
  tx.db.run(LET_GO, tx.at, row)
}
