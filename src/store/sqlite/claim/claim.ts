// Claims ready rows for work or for the gate. A row that meets a full limit or a paused run is parked, so that a claim reads it
// only once. Settings of a queue bound its lanes as a whole: rows beyond them stay ready and unread.
//
// A run that is being cancelled gives out only containers whose children have finished. Its other rows are parked like those of a paused
// run until `cancelPending` finishes them, so that claims do not read them again. Postgres, where parking costs a second write
// in the ready queue, leaves them there, and its claims filter them.

import { admit } from "../../../core/rules/claims/admit.ts"
import { type HolderId, newAttemptId } from "../../../core/model/ids.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { TaskClaim } from "../../contract/store.ts"
import { type Candidate, pickCandidates } from "./candidates.ts"
import { type ClaimedRow, toTaskClaims } from "./to-claims.ts"
import { type LaneSet, laneSets, type ClaimCursor } from "./lane-sets.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import type { Tx } from "../tx.ts"

export interface ClaimRequest {
  lanes: readonly string[]
  maxClaims: number
}

export interface ClaimedRows {
  rows: ClaimedRow[]
  /** The claim stopped at a bound on what it reads, before it had the requested number. */
  more: boolean
}

export interface GateClaims {
  claims: TaskClaim[]
  more: boolean
}

const HOLDER = "SELECT seq, name FROM holders WHERE id = ? AND dead = 0"

/** The lease holder that claims; null: it is not registered or was evicted, and claims nothing. */
export type Claimer = { seq: number; name: string } | null

export const claimerOf = (tx: Tx, holder: HolderId): Claimer => {
  const found = tx.db.get<[number, string]>(HOLDER, holder)
  return found === undefined ? null : { seq: found[0], name: found[1] }
}

/** Claims rows for work. The caller builds their claims, and emits them. */
export const claimWork = (tx: Tx, claimer: Claimer, request: ClaimRequest, cursor: ClaimCursor): ClaimedRows =>
  claimRows(tx, claimer, request, cursor, "work")

/** Claims rows for the gate, which are all of runs: jobs do not pass a gate. */
export const claimGates = (tx: Tx, claimer: Claimer, request: ClaimRequest, cursor: ClaimCursor): GateClaims => {
  const { rows, more } = claimRows(tx, claimer, request, cursor, "gate")
  return { claims: toTaskClaims(tx, rows), more }
}

type ClaimKind = "work" | "gate"

const claimRows = (tx: Tx, claimer: Claimer, request: ClaimRequest, cursor: ClaimCursor, kind: ClaimKind): ClaimedRows => {
  if (claimer === null || request.maxClaims <= 0 || request.lanes.length === 0) return { rows: [], more: false }
  const rows: ClaimedRow[] = []
  const { sets: firstSets, isPartial } = laneSets(tx, request.lanes, cursor)
  let sets = firstSets
  let seen = 0
  while (sets.length > 0 && rows.length < request.maxClaims && seen < MAX_CANDIDATES) {
    const nonEmpty: LaneSet[] = []
    for (const [i, set] of sets.entries()) {
      const left = Math.min(request.maxClaims - rows.length, MAX_CANDIDATES - seen)
      if (left === 0) break
      const candidates = pickCandidates(tx, set.lanes, Math.ceil(left / (sets.length - i)), cursor)
      if (candidates.length === 0) continue
      seen += candidates.length
      rows.push(...claimCandidates(tx, claimer, admitCandidates(tx, candidates, kind), kind))
      if (set.cursor !== undefined) cursor[set.cursor] = set.lanes[0]!
      nonEmpty.push(set)
    }
    sets = nonEmpty
  }
  return { rows, more: rows.length < request.maxClaims && (isPartial || sets.length > 0) }
}

const PARK = "UPDATE tasks SET parked = ? WHERE id = ?"

/** Returns the candidates that may be claimed and parks the others. Limits do not apply to the gate. */
const admitCandidates = (tx: Tx, candidates: Candidate[], kind: ClaimKind): Candidate[] => {
  const isWork = kind === "work"
  if (candidates.every(({ mustPark, limits }) => !mustPark && (!isWork || limits.length === 0))) return candidates
  const limited = candidates.map(({ rowId: row, mustPark, limits }) => ({ row, mustPark, limits: isWork ? limits : [] }))
  const admission = admit(limited, tx.limits.states(new Set(limited.flatMap(({ limits }) => limits))))
  for (const { row, limit } of admission.park) tx.db.run(PARK, limit, row)
  for (const [id, slots] of admission.used) tx.limits.use(id, slots)
  for (const [id, rows] of admission.unpark) tx.limits.unpark(id, rows)
  const admitted = new Set(admission.claim)
  return candidates.filter((candidate) => admitted.has(candidate.rowId))
}

const DISPATCH = `
UPDATE tasks SET status = 'dispatched', attempt = attempt + 1, attempt_id = claimed.value, holder = ?, worker = ?, dispatched_at = ?,
  last_attempt_state = NULL, error = NULL, exit_code = NULL, progress = NULL, padding = NULL
FROM json_each(?) AS claimed WHERE tasks.id = CAST(claimed.key AS INTEGER)`

const CLAIM_FOR_GATE = "UPDATE tasks SET attempt_id = ?, holder = ? WHERE id = ?"

/** Claims rows under new attempt ids. It changes the candidates in place: a copy costs as much as a short statement. */
const claimCandidates = (
  tx: Tx,
  claimer: NonNullable<Claimer>,
  candidates: readonly Candidate[],
  kind: ClaimKind,
): ClaimedRow[] => {
  for (const candidate of candidates) candidate.attemptId = newAttemptId(tx.now, tx.random.hex128())
  const rows = candidates as ClaimedRow[]
  if (kind === "gate") for (const { attemptId, rowId } of rows) tx.db.run(CLAIM_FOR_GATE, attemptId, claimer.seq, rowId)
  else if (rows.length > 0) {
    const attempts = rows.map(({ rowId, attemptId }) => `"${rowId}":"${attemptId}"`)
    tx.db.put(DISPATCH, claimer.seq, claimer.name, tx.at, `{${attempts.join(",")}}`)
    for (const row of rows) recordDispatch(tx, row)
  }
  return rows
}

/** Counts a claim for work that the caller has written. */
export const recordDispatch = (tx: Tx, row: ClaimedRow): void => {
  row.attempt++
  tx.inFlight.update(row.attemptId, loadedRow(tx, row))
  tx.queues.use(row.lane)
}

const loadedRow = (
  tx: Tx,
  { rowId, runSeq, node, path, kind, attemptId, attempt, item, parent, limits, lane }: ClaimedRow,
): LoadedRow => {
  const isJob = isJobRow(runSeq)
  const run = isJob ? null : tx.runs.get(runSeq)
  return {
    id: rowId,
    runSeq,
    node,
    path,
    kind,
    hook: run !== null && tx.workflows.get(run.versionId).nodes[node]!.hook !== null,
    status: "dispatched",
    attemptId,
    attempt,
    upstreamPending: 0,
    jobName: isJob ? item : null,
    parent,
    limits,
    workflowId: run?.workflowId ?? 0,
    childrenCreated: 0,
    childrenTotal: null,
    hasStartTime: false,
    lane,
    isWaiting: false,
    resumes: 0,
    stopRequested: false,
  }
}
