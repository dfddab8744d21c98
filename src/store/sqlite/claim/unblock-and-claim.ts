// Claims rows in the same write that unblocks them, when no ready row would be claimed first (core/rules/claims/claim-order.ts). All
// other rows are unblocked and wait for a claim. It spares one of four writes of a task, see docs/decisions/fast-paths.md.

import { newAttemptId } from "../../../core/model/ids.ts"
import {
  isExactLane,
  isRestrictedLane,
  requirementOfLane,
  RESTRICTED_LANES,
  wildcardRange,
  wildcardRequirements,
  workLane,
} from "../../../core/routing/lanes.ts"
import { decideStart } from "../../../core/rules/claims/startable.ts"
import { compareReady, precedesReady, type ReadyRow, needsRoundRobin } from "../../../core/rules/claims/claim-order.ts"
import { taskPriority } from "../../../core/rules/runs/new-rows.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import { readyOrder } from "../../shared/claim-order.ts"
import { NEXT_WORKFLOW, type RunState, runStates } from "./candidates.ts"
import { type Claimer, type ClaimRequest, recordDispatch } from "./claim.ts"
import type { ClaimedRow } from "./to-claims.ts"
import { readyLanes } from "./lane-sets.ts"
import { READY, unblock } from "./ready-queue.ts"
import type { Tx } from "../tx.ts"

/** A top-level row without a gate, to be counted down by `finished` upstream tasks of this batch, which all succeeded. */
export interface RowToUnblock {
  rowId: number
  runSeq: number
  node: number
  path: ""
  finished: number
}

const CHILDLESS = { kind: "task", childrenCreated: 0, childrenPending: null } as const

type ReadyRowToUnblock = RowToUnblock & ReadyRow

/** Unblocks all of these rows. Returns, in claim order, those that it also claimed. */
export const unblockAndClaim = (
  tx: Tx,
  claimer: Claimer,
  request: ClaimRequest,
  rowsToUnblock: readonly RowToUnblock[],
): ClaimedRow[] => {
  const limit = claimer === null ? 0 : Math.min(request.maxClaims, MAX_CANDIDATES)
  const plan = planClaims(tx, request.lanes, limit, rowsToUnblock)
  if (claimer === null || plan === null) {
    for (const row of rowsToUnblock) unblock(tx, row)
    return []
  }
  const { rows, head } = plan
  const claimed: ClaimedRow[] = []
  const stateOf = runStates(tx)
  const isRequested = requestedLanes(request.lanes)
  for (const [i, row] of rows.entries()) {
    const run = stateOf(row.runSeq)
    // Hooks, whose run has closed, are left to a claim.
    const isStartable = run.status === "running" && decideStart(run, CHILDLESS) === "claim"
    // A row that cannot be claimed counts toward the limit: a claim would have considered it too.
    const mayClaim =
      isStartable && i < limit && isRequested(row.lane) && precedesReady(row, head) && hasNoSettings(tx, row.lane)
    const claim = mayClaim ? claimRow(tx, claimer, row, run) : null
    if (claim === null) unblock(tx, row)
    else claimed.push(claim)
  }
  return claimed
}

interface ClaimPlan {
  rows: ReadyRowToUnblock[]
  /** Ready row that a claim of the same lanes takes first; null: none. */
  head: ReadyRow | null
}

/** Returns the rows in claim order, and what is claimed before them; null when nothing is claimed here, or by round robin. */
const planClaims = (
  tx: Tx,
  lanes: readonly string[],
  limit: number,
  rowsToUnblock: readonly RowToUnblock[],
): ClaimPlan | null => {
  if (limit <= 0 || rowsToUnblock.length === 0) return null
  const rows = inClaimOrder(tx, rowsToUnblock, limit)
  if (rows === null) return null
  const head = readyHead(tx, lanes)
  return head === "needs_round_robin" ? null : { rows, head }
}

/** Returns the rows in claim order; null when a claim would choose among them by round robin. */
const inClaimOrder = (tx: Tx, rowsToUnblock: readonly RowToUnblock[], limit: number): ReadyRowToUnblock[] | null => {
  const rows = rowsToUnblock.map((row): ReadyRowToUnblock => {
    const run = tx.runs.get(row.runSeq)
    const node = tx.workflows.get(run.versionId).nodes[row.node]!
    return { ...row, lane: workLane(run, node), priority: taskPriority(node, run.priority), workflowId: run.workflowId }
  })
  const workflows = new Set(rows.map(({ workflowId }) => workflowId)).size
  const lanes = new Set(rows.map(({ lane }) => lane)).size
  return needsRoundRobin({ rows: rows.length, workflows, lanes }, limit) ? null : rows.sort(compareReady)
}

const HEAD = `
SELECT priority, workflow_id, run_seq, id FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ?
ORDER BY ${readyOrder()} LIMIT 1`

/** Returns the queued row that a claim of these lanes takes first, or null. "needs_round_robin": several lanes or workflows take turns. */
const readyHead = (tx: Tx, lanes: readonly string[]): ReadyRow | null | "needs_round_robin" => {
  const range = wildcardRange(lanes)
  const ofRange = range === null ? [] : readyLanes(tx, range.from, range.to, 2)
  const restricted = readyRestrictedLanes(tx, lanes)
  if (restricted === null) return "needs_round_robin"
  const candidates = new Set([...lanes.filter(isExactLane), ...ofRange, ...restricted])
  let head: ReadyRow | null = null
  for (const lane of candidates) {
    const first = tx.db.get<[number, number, number, number]>(HEAD, lane)
    if (first === undefined) continue
    if (head !== null) return "needs_round_robin"
    const [priority, workflowId, runSeq, rowId] = first
    head = { lane, priority, workflowId, runSeq, rowId }
  }
  const takesTurns = head !== null && tx.db.get(NEXT_WORKFLOW, head.lane, head.priority, head.workflowId) !== undefined
  return takesTurns ? "needs_round_robin" : head
}

/** Ready lanes of restricted work, of any requirement, above which the queue counts as shared. */
const MAX_RESTRICTED = 8

/** Returns the lanes with ready rows that the claim names by their requirement; null when there are too many to look through. */
const readyRestrictedLanes = (tx: Tx, lanes: readonly string[]): string[] | null => {
  const requirements = wildcardRequirements(lanes)
  if (requirements.length === 0) return []
  const ready = readyLanes(tx, RESTRICTED_LANES.from, RESTRICTED_LANES.to, MAX_RESTRICTED)
  return ready.length === MAX_RESTRICTED ? null : ready.filter((lane) => requirements.includes(requirementOfLane(lane)))
}

const requestedLanes = (lanes: readonly string[]): ((lane: string) => boolean) => {
  const range = wildcardRange(lanes)
  const requirements = new Set(wildcardRequirements(lanes))
  return (lane) =>
    lanes.includes(lane) ||
    (range !== null && lane > range.from && lane < range.to) ||
    (isRestrictedLane(lane) && requirements.has(requirementOfLane(lane)))
}

const hasNoSettings = (tx: Tx, lane: string): boolean => tx.queues.available(lane) === Number.POSITIVE_INFINITY

/** Matches the row only as it was created and never claimed, so that nothing of it has to be read. */
const UNBLOCK_AND_CLAIM = `
UPDATE tasks SET upstream_pending = 0, status = 'dispatched', attempt = 1, attempt_id = ?, holder = ?, worker = ?, dispatched_at = ?,
  padding = NULL
WHERE id = ? AND run_seq = ? AND node = ? AND path = '' AND status = 'pending' AND upstream_pending = ? AND lane = ? AND priority = ?
  AND kind = 'task' AND parent_id IS NULL AND attempt = 0 AND attempt_id IS NULL AND limits IS NULL AND parked IS NULL AND available_at IS NULL
  AND upstream_failed = 0 AND upstream_unmet = 0 AND upstream_waived = 0`

/** Returns null when no row matches. */
const claimRow = (
  tx: Tx,
  claimer: NonNullable<Claimer>,
  { rowId, runSeq, node, finished, lane, priority }: ReadyRowToUnblock,
  run: RunState,
): ClaimedRow | null => {
  const attemptId = newAttemptId(tx.now, tx.random.hex128())
  const { seq, name } = claimer
  const written = tx.db.run(UNBLOCK_AND_CLAIM, attemptId, seq, name, tx.at, rowId, runSeq, node, finished, lane, priority)
  if (written === 0) return null
  const claimed: ClaimedRow = {
    rowId,
    runSeq,
    node,
    lane,
    path: "",
    kind: "task",
    parent: null,
    attempt: 0,
    failures: 0,
    losses: 0,
    priority,
    item: null,
    limits: [],
    childrenCreated: 0,
    childrenTotal: null,
    childrenPending: null,
    childrenFailed: 0,
    upstream: { failed: 0, unmet: 0, waived: 0 },
    mustPark: false,
    run,
    attemptId,
    wait: null,
  }
  recordDispatch(tx, claimed)
  return claimed
}
