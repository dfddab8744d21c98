// Ready rows that may be taken, in the order that they are owed: the highest priority, its workflows in turn, then by run and row.

import type { AttemptId } from "../../../core/model/ids.ts"
import { queueOfLane } from "../../../core/routing/lanes.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import { MAX_GROUPS } from "../../shared/bounds.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { CancelReason, RowKind, TaskClaim } from "../../contract/store.ts"
import { served, type RoundRobin, workflowTurn } from "./lane-groups.ts"
import { limitIds } from "./limits.ts"
import { READY } from "./ready-queue.ts"
import type { Tx } from "../connection/tx.ts"

export interface Candidate {
  row: number
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
  childrenLeft: number | null
  childrenFailed: number
  upstream: { failed: number; unmet: number; waived: number }
  paused: boolean
  run: RunState
  /** Minted when it is taken. */
  attemptId: AttemptId | null
  waitingOn: TaskClaim["waitingOn"]
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

export const CANDIDATE = `id, run_seq, node, path, kind, parent_id, attempt, failures, losses, priority, item, limits,
  children_created, children_total, children_pending, children_failed, upstream_failed, upstream_unmet, upstream_waived`

const ROWS = `
SELECT ${CANDIDATE}
FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ? AND priority = ? AND workflow_id = ? ORDER BY run_seq, id LIMIT ? + 0`

const RUN_STATE = "SELECT status, cancelling, error, paused FROM runs WHERE seq = ?"

export type Columns = [
  number,
  number,
  number,
  string,
  RowKind,
  number | null,
  number,
  number,
  number,
  number,
  string | null,
  string | null,
  number,
  number | null,
  number | null,
  number,
  number,
  number,
  number,
]

/** Candidates of the highest priority in these lanes, divided among its workflows in turn. Empty: nothing may be taken. */
export const pickCandidates = (tx: Tx, lanes: readonly string[], want: number, turn: RoundRobin): Candidate[] => {
  const tops = lanes.map((lane) => topOf(tx, lane))
  const priority = Math.max(...tops)
  if (priority === NOTHING) return []
  const here = lanes.filter((_, i) => tops[i] === priority)
  const rooms = new Rooms(tx)
  const workflows = inTurn(workflowsOf(tx, here, priority), workflowTurn(turn, lanes))
  const picked: Candidate[] = []
  for (const [i, workflowId] of workflows.entries()) {
    const share = Math.ceil((want - picked.length) / (workflows.length - i))
    if (share === 0) break
    picked.push(...rowsOf(tx, here, priority, workflowId, share, rooms))
    served(turn, lanes, workflowId)
  }
  return picked
}

const NOTHING = Number.NEGATIVE_INFINITY

/** The highest priority that waits in a lane, unless its queue allows nothing. */
const topOf = (tx: Tx, lane: string): number => {
  const top = tx.db.get<[number]>(TOP_PRIORITY, lane)?.[0]
  if (top === undefined) return NOTHING
  if (tx.queues.room(lane) > 0) return top
  tx.queues.left(lane)
  return NOTHING
}

/** How many more of a queue's rows may be candidates; lanes of one queue share it. */
class Rooms {
  readonly #tx: Tx
  readonly #left = new Map<string, number>()

  constructor(tx: Tx) {
    this.#tx = tx
  }

  of(lane: string): number {
    return this.#left.get(queueOfLane(lane) ?? lane) ?? this.#tx.queues.room(lane)
  }

  use(lane: string, rows: number): void {
    this.#left.set(queueOfLane(lane) ?? lane, this.of(lane) - rows)
  }
}

const workflowsOf = (tx: Tx, lanes: readonly string[], priority: number): number[] => {
  const found = new Set<number>()
  for (const lane of lanes)
    for (let last = -1; found.size < MAX_GROUPS;) {
      const next = tx.db.get<[number]>(NEXT_WORKFLOW, lane, priority, last)
      if (next === undefined) break
      found.add((last = next[0]))
    }
  return [...found].toSorted((a, b) => a - b)
}

/** Those after the last one served come first. */
const inTurn = (workflows: number[], last: number): number[] => [
  ...workflows.filter((id) => id > last),
  ...workflows.filter((id) => id <= last),
]

const rowsOf = (
  tx: Tx,
  lanes: readonly string[],
  priority: number,
  workflowId: number,
  share: number,
  rooms: Rooms,
): Candidate[] => {
  const stateOf = runStates(tx)
  const found = lanes.flatMap((lane) => {
    const rows = tx.db.all<Columns>(ROWS, lane, priority, workflowId, Math.min(share, rooms.of(lane)))
    rooms.use(lane, rows.length)
    return rows.map((columns) => candidateOf(columns, lane, stateOf(columns[1])))
  })
  if (lanes.length === 1) return found
  return found.toSorted((a, b) => a.runSeq - b.runSeq || a.row - b.row).slice(0, share)
}

/** The states of runs, each read once. */
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

export const candidateOf = (c: Columns, lane: string, run: RunState): Candidate => {
  const gathering = c[4] !== "task" && c[12] > 0 && c[14] === 0
  return {
    row: c[0],
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
    childrenLeft: c[14],
    childrenFailed: c[15],
    upstream: { failed: c[16], unmet: c[17], waived: c[18] },
    paused: run.cancelling === null ? run.paused : !gathering,
    run,
    attemptId: null,
    waitingOn: null,
  }
}
