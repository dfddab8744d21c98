// Rows that wait: running without a slot, `waiting_on` set. A row is resumed when its time has come or an event arrives
// (`resume_at`); the gate then claims it under the attempt id that it has. `holder` is NULL while nobody has claimed it.

import { PARKED_BY_PAUSE } from "../../../core/rules/claims/admit.ts"
import { decideResume } from "../../../core/rules/claims/startable.ts"
import type { Change } from "../../../core/model/change.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { renewalEmitsEvent, waitingView, type WaitingOn } from "../../../core/model/waiting-on.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { CANDIDATE, type CandidateColumns, candidateOf, runStates } from "../claim/candidates.ts"
import { type ClaimedRow, toTaskClaims } from "../claim/to-claims.ts"
import type { Claimer, ClaimRequest, GateClaims } from "../claim/claim.ts"
import { emitTask } from "./events.ts"
import type { BatchEffects } from "./batch-effects.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import type { Tx } from "../tx.ts"

/**
 * Returns the statement of a wait. An event that arrived while the row was claimed has set `resume_at`: it stays, and the row is due at
 * once.
 */
const waitStatement = (resumeAt: string): string => `
UPDATE tasks SET status = 'running', attempt = attempt + ?1, waiting_on = ?2, resume_at = ${resumeAt}, resume_lane = ?4, resumes = ?9,
  holder = NULL, dispatched_at = coalesce(dispatched_at, ?5), started_at = coalesce(started_at, ?6), progress = NULL,
  last_attempt_state = NULL, error = NULL, exit_code = NULL
WHERE id = ?7 AND attempt_id = ?8`

const WAIT = waitStatement("min(coalesce(resume_at, ?3), ?3)")
const WAIT_FOR_EVENT = waitStatement("coalesce(resume_at, ?3)")

/** A suspended function that has not seen all requests to resume it is due at once. */
const SUSPEND = waitStatement("CASE WHEN coalesce(resume_requests, 0) = ?10 THEN ?3 ELSE ?5 END")

const IS_CANCELLED = "SELECT 1 FROM runs WHERE seq = ? AND cancelling = 'cancel'"

/**
 * Makes a row wait. Rejects jobs, which cannot wait, waits that were decided before the row was last resumed, and the suspension of a
 * function whose run is being cancelled.
 */
export const wait = (tx: Tx, effects: BatchEffects, row: LoadedRow, change: Extract<Change, { kind: "wait" }>): boolean => {
  const { waitingOn, delayMs, resumes = 0, seenRequests } = change
  if (isJobRow(row.runSeq) || (row.isWaiting && row.resumes !== resumes)) return false
  if (seenRequests !== undefined && tx.db.get(IS_CANCELLED, row.runSeq) !== undefined) return false
  const isFromGate = row.status === "pending"
  const resumeAt = delayMs === null ? null : tx.iso(tx.now + Math.max(0, Math.ceil(delayMs)))
  const isFirst = isFromGate || row.status === "dispatched"
  const startedAt = change.startedAt !== undefined ? tx.iso(change.startedAt) : isFirst ? tx.at : null
  const lane = gateLane(tx.runs.get(row.runSeq))
  const attemptIncrement = isFromGate ? 1 : 0
  const values = [
    attemptIncrement,
    JSON.stringify(waitingOn),
    resumeAt,
    lane,
    tx.at,
    startedAt,
    row.id,
    change.attemptId,
    resumes,
  ]
  if (seenRequests !== undefined) tx.db.run(SUSPEND, ...values, seenRequests)
  else tx.db.run(resumeAt === null ? WAIT_FOR_EVENT : WAIT, ...values)
  if (!isFromGate && !row.isWaiting) effects.free(row)
  const emits = !row.isWaiting || renewalEmitsEvent(waitingOn)
  if (isFromGate) row.attempt++
  row.status = "running"
  row.isWaiting = true
  row.resumes = resumes
  if (!emits) return true
  const waiting = waitingView(waitingOn, resumeAt)
  emitTask(tx, row, { status: "running", at: startedAt ?? tx.at, attempt: row.attempt, waiting })
  return true
}

const NEXT = `
SELECT resume_at FROM tasks INDEXED BY tasks_resume
WHERE resume_at IS NOT NULL AND holder IS NULL AND resume_lane = ? ORDER BY resume_at LIMIT 1`

/** Returns the milliseconds until the next row of these lanes is due, or null. */
const nextResumeMs = (tx: Tx, lanes: readonly string[]): number | null => {
  const due = lanes.flatMap((lane) => tx.db.get<[string]>(NEXT, lane)?.[0] ?? [])
  return due.length === 0 ? null : Math.max(0, Math.min(...due.map((at) => Date.parse(at))) - tx.now)
}

const DUE = `
SELECT ${CANDIDATE}, attempt_id, waiting_on, started_at, resumes + 1, lane, must_end FROM tasks INDEXED BY tasks_resume
WHERE resume_at IS NOT NULL AND holder IS NULL AND resume_lane = ? AND resume_at <= ? ORDER BY resume_at, id LIMIT ? + 0`

type WaitingColumns = [
  attemptId: ClaimedRow["attemptId"],
  waitingOn: string,
  startedAt: string,
  resumes: number,
  lane: string,
  mustEnd: number,
]
type Columns = [...CandidateColumns, ...WaitingColumns]

const CLAIM = "UPDATE tasks SET holder = ?, resume_at = NULL, resumes = resumes + 1 WHERE id = ?"

const PARK = `UPDATE tasks SET parked = ${PARKED_BY_PAUSE}, resume_at = NULL WHERE id = ?`

export interface ResumedClaims extends GateClaims {
  /** Milliseconds until the next row is due, or null. */
  nextMs: number | null
}

/** Claims waiting rows that are due. Rows of a paused run are parked until the run continues. */
export const claimResumed = (tx: Tx, claimer: Claimer, request: ClaimRequest): ResumedClaims => {
  if (claimer === null || request.maxClaims <= 0) return { claims: [], more: false, nextMs: null }
  const nextMs = nextResumeMs(tx, request.lanes)
  if (nextMs !== 0) return { claims: [], more: false, nextMs }
  const claimed: ClaimedRow[] = []
  const stateOf = runStates(tx)
  let seen = 0
  for (const resumeLane of request.lanes) {
    for (const columns of tx.db.all<Columns>(DUE, resumeLane, tx.at, request.maxClaims - seen)) {
      seen++
      const [attemptId, waitingOn, startedAt, resumes, lane, mustEnd] = columns.slice(-6) as WaitingColumns
      const row = candidateOf(columns as unknown as CandidateColumns, lane, stateOf(columns[1]))
      if (decideResume(row.run, { mustEnd: mustEnd === 1 }) === "park") {
        tx.db.run(PARK, row.rowId)
        continue
      }
      tx.db.run(CLAIM, claimer.seq, row.rowId)
      claimed.push({
        ...row,
        attemptId,
        wait: waitOf(tx, { waitingOn, startedAt, resumes, mustEnd: mustEnd === 1 }),
      })
    }
  }
  return { claims: toTaskClaims(tx, claimed), more: seen === request.maxClaims, nextMs: nextResumeMs(tx, request.lanes) }
}

interface WaitingState {
  waitingOn: string | null
  startedAt: string | null
  resumes: number
  mustEnd?: boolean
}

/** Returns the wait of a claimed row; null for a row that did not wait. */
export const waitOf = (tx: Tx, { waitingOn, startedAt, resumes, mustEnd = false }: WaitingState): TaskClaim["wait"] => {
  if (waitingOn === null || startedAt === null) return null
  return {
    on: JSON.parse(waitingOn) as WaitingOn,
    elapsedMs: Math.max(0, tx.now - Date.parse(startedAt)),
    resumes,
    ...(mustEnd && { mustEnd }),
  }
}

const RESUME_STOPPED = "UPDATE tasks SET resume_at = ?, must_end = 1, parked = NULL WHERE id = ? AND waiting_on IS NOT NULL"

/** Resumes a row inside an overdue group. */
export const resumeStopped = (tx: Tx, row: number): void => {
  tx.db.run(RESUME_STOPPED, tx.at, row)
}

const RESUME_CANCELLED = `
UPDATE tasks SET resume_at = ?1, must_end = 1, parked = NULL WHERE id IN (
  SELECT id FROM tasks INDEXED BY tasks_waiting WHERE run_seq = ?2 AND waiting_on IS NOT NULL AND must_end = 0 ORDER BY id LIMIT ?3 + 0)`

/** Resumes each waiting row of a run that is being cancelled once. Returns how many there were. */
export const resumeCancelled = (tx: Tx, runSeq: number, limit: number): number =>
  tx.db.run(RESUME_CANCELLED, tx.at, runSeq, limit)

const RESUME_UNPAUSED = `
UPDATE tasks INDEXED BY tasks_waiting SET resume_at = ?, parked = NULL WHERE run_seq = ? AND waiting_on IS NOT NULL AND parked = ${PARKED_BY_PAUSE}`

/** Resumes the rows that were parked while their run was paused. */
export const resumeUnpaused = (tx: Tx, runSeq: number): void => {
  tx.db.run(RESUME_UNPAUSED, tx.at, runSeq)
}

const RELEASE = "UPDATE tasks SET holder = NULL, resume_at = ? WHERE id = ? AND waiting_on IS NOT NULL"

/** Releases a resumed row that its holder gave back: it is due again. */
export const releaseResumed = (tx: Tx, row: number): void => {
  tx.db.run(RELEASE, tx.at, row)
}
