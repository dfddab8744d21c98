// Takes ready rows for work or for the gate. Order: priority, then workflows in turn, then run, then row. What meets a full
// limit or a pause is parked, out of the index, so that it is looked at once. A queue's own settings hold its lanes back as a
// whole: they are just not read further.
//
// A run that is being cancelled gives nothing away but containers whose instances have ended; its other rows are put aside
// for the cancel cursor.

import { admit } from "../../../core/rules/admit.ts"
import { type HolderId, newAttemptId } from "../../../core/model/ids.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Claim, TaskClaim } from "../../contract/store.ts"
import { type Candidate, pickCandidates } from "./candidates.ts"
import { type ClaimedRow, toClaims, toTaskClaims } from "./to-claims.ts"
import { emitTask } from "../advance/events.ts"
import { laneGroups, type RoundRobin } from "./lane-groups.ts"
import { type LoadedRow, ROOM } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"

export interface ClaimRequest {
  lanes: readonly string[]
  limit: number
}

export interface ClaimResult<C extends Claim> {
  claims: C[]
  /** The bound on candidates was reached before the wanted number. */
  more: boolean
}

const HOLDER = "SELECT seq, name FROM holders WHERE id = ? AND dead = 0"

export type Claimer = { seq: number; name: string } | null

/** A holder that is not registered, or was given up on, takes nothing. */
export const claimerOf = (tx: Tx, holder: HolderId): Claimer => {
  const found = tx.db.get<[number, string]>(HOLDER, holder)
  return found === undefined ? null : { seq: found[0], name: found[1] }
}

export const claimWork = (tx: Tx, taker: Claimer, wanted: ClaimRequest, turn: RoundRobin): ClaimResult<Claim> => {
  const { taken, more } = take(tx, taker, wanted, turn, true)
  return { claims: toClaims(tx, taken), more }
}

export const claimGates = (tx: Tx, taker: Claimer, wanted: ClaimRequest, turn: RoundRobin): ClaimResult<TaskClaim> => {
  const { taken, more } = take(tx, taker, wanted, turn, false)
  return { claims: toTaskClaims(tx, taken), more }
}

const take = (
  tx: Tx,
  taker: Claimer,
  wanted: ClaimRequest,
  turn: RoundRobin,
  work: boolean,
): { taken: ClaimedRow[]; more: boolean } => {
  if (taker === null || wanted.limit <= 0 || wanted.lanes.length === 0) return { taken: [], more: false }
  const taken: ClaimedRow[] = []
  const looked = laneGroups(tx, wanted.lanes, turn)
  let { groups } = looked
  let seen = 0
  while (groups.length > 0 && taken.length < wanted.limit && seen < MAX_CANDIDATES) {
    const again: (readonly string[])[] = []
    for (const [i, lanes] of groups.entries()) {
      const left = Math.min(wanted.limit - taken.length, MAX_CANDIDATES - seen)
      if (left === 0) break
      const candidates = pickCandidates(tx, lanes, Math.ceil(left / (groups.length - i)), turn)
      if (candidates.length === 0) continue
      seen += candidates.length
      for (const candidate of admitted(tx, candidates, work)) taken.push(hold(tx, taker, candidate, work))
      turn.lane = lanes[0]!
      again.push(lanes)
    }
    groups = again
  }
  const more = taken.length < wanted.limit && (looked.cut || groups.length > 0)
  return { taken, more }
}

const PARK = "UPDATE tasks SET parked = ? WHERE id = ?"

/** The candidates that may go; the others are parked. The gate is under no limit. */
const admitted = (tx: Tx, candidates: Candidate[], work: boolean): Candidate[] => {
  if (candidates.every(({ paused, limits }) => !paused && (!work || limits.length === 0))) return candidates
  const judged = candidates.map(({ row, paused, limits }) => ({ row, paused, limits: work ? limits : [] }))
  const admission = admit(judged, tx.limits.states(new Set(judged.flatMap(({ limits }) => limits))))
  for (const { row, limit } of admission.park) tx.db.run(PARK, limit, row)
  for (const [id, slots] of admission.used) tx.limits.use(id, slots)
  for (const [id, rows] of admission.unpark) tx.limits.unpark(id, rows)
  const take = new Set(admission.claim)
  return candidates.filter((candidate) => take.has(candidate.row))
}

const DISPATCH = `
UPDATE tasks SET status = 'dispatched', attempt = attempt + 1, attempt_id = ?, holder = ?, worker = ?, dispatched_at = ?,
  outcome = NULL, error = NULL, exit_code = NULL, progress = NULL, room = ${ROOM.dispatched}
WHERE id = ?`

const HOLD = "UPDATE tasks SET attempt_id = ?, holder = ? WHERE id = ?"

/** Mints the attempt id. The candidate itself is changed: copies would cost as much as the statement. */
const hold = (tx: Tx, taker: NonNullable<Claimer>, candidate: Candidate, work: boolean): ClaimedRow => {
  const taken = candidate as ClaimedRow
  taken.attemptId = newAttemptId(tx.now, tx.random.hex128())
  if (work) {
    tx.db.put(DISPATCH, taken.attemptId, taker.seq, taker.name, tx.at, taken.row)
    dispatched(tx, taken)
  } else tx.db.run(HOLD, taken.attemptId, taker.seq, taken.row)
  return taken
}

/** It was written so: what goes with it. */
export const dispatched = (tx: Tx, taken: ClaimedRow): void => {
  taken.attempt++
  if (!isJobRow(taken.runSeq)) tx.inFlight.keep(taken.attemptId, heldRow(tx, taken))
  tx.queues.take(taken.lane)
  emitTask(tx, taken, { status: "dispatched", at: tx.at, attempt: taken.attempt })
}

const heldRow = (
  tx: Tx,
  { row, runSeq, node, path, kind, attemptId, attempt, parent, limits, lane }: ClaimedRow,
): LoadedRow => {
  const { workflowId, versionId } = tx.runs.get(runSeq)
  return {
    id: row,
    runSeq,
    node,
    path,
    kind,
    hook: tx.versions.get(versionId).nodes[node]!.hook !== null,
    status: "dispatched",
    attemptId,
    attempt,
    parent,
    limits,
    workflowId,
    childrenCreated: 0,
    childrenTotal: null,
    started: false,
    lane,
    isWaiting: false,
  }
}
