// Rows that become ready and go on at once: released and taken in one write. That is for rows which a claim would take first: no ready
// one stands before them, and no other workflow or lane waits for its turn. All others are released, and wait for a claim.

import { newAttemptId } from "../../../core/model/ids.ts"
import { wildcardFunctions, wildcardRange, workLane } from "../../../core/routing/lanes.ts"
import { taskPriority } from "../../../core/rules/new-rows.ts"
import { MAX_CANDIDATES } from "../../shared/bounds.ts"
import { NEXT_WORKFLOW, type RunState, runStates } from "./candidates.ts"
import { dispatched, type Claimer, type ClaimRequest } from "./claim.ts"
import type { ClaimedRow } from "./to-claims.ts"
import { readyLanes } from "./lane-groups.ts"
import { READY } from "./ready-queue.ts"
import { release, type Success } from "../advance/unblock.ts"
import { ROOM } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"

interface Below {
  success: Success
  lane: string
  priority: number
  workflowId: number
}

interface Head {
  lane: string
  priority: number
  workflowId: number
  runSeq: number
  row: number
}

/** The rows that were taken, in the order of claims. */
export const takeOnward = (tx: Tx, taker: Claimer, wanted: ClaimRequest, successes: readonly Success[]): ClaimedRow[] => {
  const { lanes } = wanted
  const limit = Math.min(wanted.limit, MAX_CANDIDATES)
  const taken: ClaimedRow[] = []
  const idle = successes.length === 0 || taker === null || limit <= 0 || wildcardFunctions(lanes).length > 0
  const rows = idle ? null : inOrder(tx, successes, limit)
  const head = rows === null ? "several" : headOf(tx, lanes)
  if (rows === null || head === "several") {
    for (const success of successes) release(tx, success)
    return taken
  }
  const stateOf = runStates(tx)
  const isWanted = wantedLanes(lanes)
  for (const [i, below] of rows.entries()) {
    const run = stateOf(below.success.runSeq)
    const free = run.status === "running" && run.cancelling === null && !run.paused
    // One that cannot go on at once keeps its place.
    const may = free && i < limit && isWanted(below.lane) && isFirst(below, head) && hasNoSettings(tx, below.lane)
    const row = may ? goOn(tx, taker!, below, run) : null
    if (row === null) release(tx, below.success)
    else taken.push(row)
  }
  return taken
}

/** As claims would take them; null: several workflows, or lanes that there is no room for, share what is free. */
const inOrder = (tx: Tx, successes: readonly Success[], limit: number): Below[] | null => {
  const rows = successes.map((success): Below => {
    const fact = tx.runs.get(success.runSeq)
    const node = tx.versions.get(fact.versionId).nodes[success.node]!
    return { success, lane: workLane(fact, node), priority: taskPriority(node, fact.priority), workflowId: fact.workflowId }
  })
  const { lane, workflowId } = rows[0]!
  if (rows.some((row) => row.workflowId !== workflowId || (rows.length > limit && row.lane !== lane))) return null
  return rows.sort((a, b) => b.priority - a.priority || a.success.runSeq - b.success.runSeq || a.success.node - b.success.node)
}

const HEAD = `
SELECT priority, workflow_id, run_seq, id FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ?
ORDER BY priority DESC, workflow_id, run_seq, id LIMIT 1`

/** The first ready row of these lanes; null: there is none. */
const headOf = (tx: Tx, lanes: readonly string[]): Head | null | "several" => {
  const every = wildcardRange(lanes)
  const found = every === null ? lanes : [...new Set([...lanes, ...readyLanes(tx, every.from, every.to, 2)])]
  let head: Head | null = null
  for (const lane of found) {
    const first = tx.db.get<[number, number, number, number]>(HEAD, lane)
    if (first === undefined) continue
    if (head !== null) return "several"
    const [priority, workflowId, runSeq, row] = first
    head = { lane, priority, workflowId, runSeq, row }
  }
  const shared = head !== null && tx.db.get(NEXT_WORKFLOW, head.lane, head.priority, head.workflowId) !== undefined
  return shared ? "several" : head
}

const isFirst = ({ lane, priority, workflowId, success }: Below, head: Head | null): boolean => {
  if (head === null) return true
  if (lane !== head.lane || priority !== head.priority) return lane === head.lane && priority > head.priority
  if (workflowId !== head.workflowId || success.runSeq !== head.runSeq)
    return workflowId === head.workflowId && success.runSeq < head.runSeq
  return success.row < head.row
}

const wantedLanes = (lanes: readonly string[]): ((lane: string) => boolean) => {
  const every = wildcardRange(lanes)
  return (lane) => lanes.includes(lane) || (every !== null && lane > every.from && lane < every.to)
}

const hasNoSettings = (tx: Tx, lane: string): boolean => tx.queues.room(lane) === Number.POSITIVE_INFINITY

/** What it was made with is asked for too, and that it was never tried: so nothing of it has to be read. */
const GO_ON = `
UPDATE tasks SET upstream_pending = 0, status = 'dispatched', attempt = 1, attempt_id = ?, holder = ?, worker = ?, dispatched_at = ?,
  room = ${ROOM.dispatched}
WHERE id = ? AND run_seq = ? AND node = ? AND path = '' AND status = 'pending' AND upstream_pending = ? AND lane = ? AND priority = ?
  AND kind = 'task' AND parent_id IS NULL AND attempt = 0 AND attempt_id IS NULL AND limits IS NULL AND parked IS NULL AND available_at IS NULL
  AND upstream_failed = 0 AND upstream_unmet = 0 AND upstream_waived = 0`

const goOn = (tx: Tx, taker: NonNullable<Claimer>, { success, lane, priority }: Below, run: RunState): ClaimedRow | null => {
  const { row, runSeq, node, ended } = success
  const attemptId = newAttemptId(tx.now, tx.random.hex128())
  const values = [attemptId, taker.seq, taker.name, tx.at, row, runSeq, node, ended, lane, priority]
  if (tx.db.run(GO_ON, ...values) === 0) return null
  const taken: ClaimedRow = {
    row,
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
    childrenLeft: null,
    childrenFailed: 0,
    upstream: { failed: 0, unmet: 0, waived: 0 },
    paused: false,
    run,
    attemptId,
    waitingOn: null,
  }
  dispatched(tx, taken)
  return taken
}
