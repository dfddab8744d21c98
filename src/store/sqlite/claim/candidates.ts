// Ready rows that a claim considers, in claim order: the highest priority first, its workflows in turn, then by run and row.

import type { AttemptId } from "../../../core/model/ids.ts"
import { queueOfLane } from "../../../core/routing/lanes.ts"
import { decideStart } from "../../../core/rules/claims/startable.ts"
import { compareReady } from "../../../core/rules/claims/claim-order.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import { MAX_SERVED } from "../../shared/bounds.ts"
import { claimOrder } from "../../shared/claim-order.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { CancelReason, RowKind, TaskClaim } from "../../contract/store.ts"
import { lastWorkflow, type ClaimCursor, setLastWorkflow } from "./lane-sets.ts"
import { limitIds } from "../connection/limit-column.ts"
import { READY } from "./ready-queue.ts"
import type { Tx } from "../tx.ts"

export interface Candidate {
  rowId: number
  runSeq: number
  node: number
  lane: string
  path: string
  kind: RowKind
  parent: number | null
  attempt: number
  failures: number
  losses: number
  priority: number
  item: string | null
  limits: readonly number[]
  childrenCreated: number
  childrenTotal: number | null
  childrenPending: number | null
  childrenFailed: number
  upstream: { failed: number; unmet: number; waived: number }
  /** Core `decideStart` does not let the row start: the claim parks it, also until a cancel finishes it (see claim.ts). */
  mustPark: boolean
  run: RunState
  /** null until the row is claimed. */
  attemptId: AttemptId | null
  wait: TaskClaim["wait"]
}

export interface RunState {
  status: RunStatus
  cancelling: CancelReason | null
  error: string | null
  paused: boolean
}

const TOP_PRIORITY = `SELECT priority FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ? ORDER BY priority DESC LIMIT 1`

export const NEXT_WORKFLOW = `
SELECT workflow_id FROM tasks INDEXED BY tasks_ready
WHERE ${READY} AND lane = ? AND priority = ? AND workflow_id > ? ORDER BY workflow_id LIMIT 1`

/** Columns of a candidate, in the order of `CandidateColumns`. */
export const CANDIDATE = `id, run_seq, node, path, kind, parent_id, attempt, failures, losses, priority, item, limits,
  children_created, children_total, children_pending, children_failed, upstream_failed, upstream_unmet, upstream_waived`

const ROWS = `
SELECT ${CANDIDATE}
FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ? AND priority = ? AND workflow_id = ?
ORDER BY ${claimOrder()} LIMIT ? + 0`

const RUN_STATE = "SELECT status, cancelling, error, paused FROM runs WHERE seq = ?"

export type CandidateColumns = [
  row: number,
  runSeq: number,
  node: number,
  path: string,
  kind: RowKind,
  parent: number | null,
  attempt: number,
  failures: number,
  losses: number,
  priority: number,
  item: string | null,
  limits: string | null,
  childrenCreated: number,
  childrenTotal: number | null,
  childrenPending: number | null,
  childrenFailed: number,
  upstreamFailed: number,
  upstreamUnmet: number,
  upstreamWaived: number,
]

/** Returns up to `limit` candidates of the highest priority in these lanes, divided among its workflows in turn. */
export const pickCandidates = (tx: Tx, lanes: readonly string[], limit: number, cursor: ClaimCursor): Candidate[] => {
  const priorities = lanes.map((lane) => topPriority(tx, lane))
  const priority = Math.max(...priorities)
  if (priority === NOTHING_READY) return []
  const topLanes = lanes.filter((_, i) => priorities[i] === priority)
  const budget = new CandidateBudget(tx)
  const workflows = workflowsOf(tx, topLanes, priority, lastWorkflow(cursor, lanes))
  const picked: Candidate[] = []
  for (const [i, workflowId] of workflows.entries()) {
    const share = Math.ceil((limit - picked.length) / (workflows.length - i))
    if (share === 0) break
    picked.push(...rowsOf(tx, topLanes, { priority, workflowId, share }, budget))
    setLastWorkflow(cursor, lanes, workflowId)
  }
  return picked
}

const NOTHING_READY = Number.NEGATIVE_INFINITY

/** Returns the highest priority of the ready rows of a lane, or NOTHING_READY, also when its queue allows no start. */
const topPriority = (tx: Tx, lane: string): number => {
  const top = tx.db.get<[number]>(TOP_PRIORITY, lane)?.[0]
  if (top === undefined) return NOTHING_READY
  if (tx.queues.available(lane) > 0) return top
  tx.queues.noteUnclaimed(lane)
  return NOTHING_READY
}

/** Number of candidates that each queue allows. Lanes of one queue share it. */
class CandidateBudget {
  readonly #tx: Tx
  readonly #left = new Map<string, number>()

  constructor(tx: Tx) {
    this.#tx = tx
  }

  available(lane: string): number {
    return this.#left.get(queueOfLane(lane) ?? lane) ?? this.#tx.queues.available(lane)
  }

  use(lane: string, rows: number): void {
    this.#left.set(queueOfLane(lane) ?? lane, this.available(lane) - rows)
  }
}

/** Returns workflows with ready rows in order, at most MAX_SERVED, beginning after `last`. Skips through the index. */
const workflowsOf = (tx: Tx, lanes: readonly string[], priority: number, last: number): number[] => {
  const ahead = workflowsAfter(tx, lanes, priority, last)
  if (ahead.length >= MAX_SERVED) return ahead
  const behind = workflowsAfter(tx, lanes, priority, -1).filter((id) => id <= last)
  return [...ahead, ...behind].slice(0, MAX_SERVED)
}

const workflowsAfter = (tx: Tx, lanes: readonly string[], priority: number, start: number): number[] => {
  const found = new Set<number>()
  for (const lane of lanes) {
    let last = start
    for (let i = 0; i < MAX_SERVED; i++) {
      const next = tx.db.get<[number]>(NEXT_WORKFLOW, lane, priority, last)
      if (next === undefined) break
      found.add((last = next[0]))
    }
  }
  return [...found].toSorted((a, b) => a - b).slice(0, MAX_SERVED)
}

const rowsOf = (
  tx: Tx,
  lanes: readonly string[],
  { priority, workflowId, share }: { priority: number; workflowId: number; share: number },
  budget: CandidateBudget,
): Candidate[] => {
  const stateOf = runStates(tx)
  const found = lanes.flatMap((lane) => {
    const rows = tx.db.all<CandidateColumns>(ROWS, lane, priority, workflowId, Math.min(share, budget.available(lane)))
    budget.use(lane, rows.length)
    return rows.map((columns) => candidateOf(columns, lane, stateOf(columns[1])))
  })
  return lanes.length === 1 ? found : found.toSorted(compareReady).slice(0, share)
}

/** Returns a function that reads the state of each run once. */
export const runStates = (tx: Tx): ((seq: number) => RunState) => {
  const states = new Map<number, RunState>()
  return (seq) => {
    let state = states.get(seq)
    if (state === undefined) states.set(seq, (state = readState(tx, seq)))
    return state
  }
}

export const readState = (tx: Tx, seq: number): RunState => {
  if (isJobRow(seq)) return JOB_STATE
  const [status, cancelling, error, paused] = tx.db.get<[RunStatus, CancelReason | null, string | null, number]>(
    RUN_STATE,
    seq,
  )!
  return { status, cancelling, error, paused: paused === 1 }
}

const JOB_STATE: RunState = { status: "running", cancelling: null, error: null, paused: false }

export const candidateOf = (c: CandidateColumns, lane: string, run: RunState): Candidate => {
  return {
    rowId: c[0],
    runSeq: c[1],
    node: c[2],
    lane,
    path: c[3],
    kind: c[4],
    parent: c[5],
    attempt: c[6],
    failures: c[7],
    losses: c[8],
    priority: c[9],
    item: c[10],
    limits: limitIds(c[11]),
    childrenCreated: c[12],
    childrenTotal: c[13],
    childrenPending: c[14],
    childrenFailed: c[15],
    upstream: { failed: c[16], unmet: c[17], waived: c[18] },
    mustPark: decideStart(run, { kind: c[4], childrenCreated: c[12], childrenPending: c[14] }) !== "claim",
    run,
    attemptId: null,
    wait: null,
  }
}
