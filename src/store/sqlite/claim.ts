// Takes ready rows for work or for the gate. Order: priority, then workflows in turn, then run, then row. What meets a full
// limit or a pause is parked, out of the index, so that it is looked at once.
//
// A run that is being cancelled gives nothing away but containers whose instances have ended; its other rows are put aside
// for the cancel cursor.

import { admit } from "../../core/admit.ts"
import { type AttemptId, type HolderId, newAttemptId } from "../../core/ids.ts"
import type { RunStatus } from "../../core/status.ts"
import { MAX_CANDIDATES, MAX_GROUPS } from "../bounds.ts"
import type { CancelReason, Claim, RowKind } from "../store.ts"
import { type Taken, toClaims } from "./claim-rows.ts"
import { tellTask } from "./events.ts"
import { limitIds } from "./limits.ts"
import type { Tx } from "./tx.ts"

export interface Wanted {
  lanes: readonly string[]
  limit: number
}

/** Which workflow was served last, per kind of claim: the next one goes on after it. */
export interface Turn {
  workflowId: number
}

export interface ClaimResult {
  claims: Claim[]
  /** The bound on candidates was reached before the wanted number. */
  more: boolean
}

const HOLDER = "SELECT seq, name FROM holders WHERE id = ? AND dead = 0"

export type Taker = { seq: number; name: string } | null

/** A holder that is not registered, or was given up on, takes nothing. */
export const takerOf = (tx: Tx, holder: HolderId): Taker => {
  const found = tx.db.get<[number, string]>(HOLDER, holder)
  return found === undefined ? null : { seq: found[0], name: found[1] }
}

export const claimWork = (tx: Tx, taker: Taker, wanted: Wanted, turn: Turn): ClaimResult => take(tx, taker, wanted, turn, true)

export const claimGates = (tx: Tx, taker: Taker, wanted: Wanted, turn: Turn): ClaimResult =>
  take(tx, taker, wanted, turn, false)

const take = (tx: Tx, taker: Taker, wanted: Wanted, turn: Turn, work: boolean): ClaimResult => {
  if (taker === null || wanted.limit <= 0 || wanted.lanes.length === 0) return { claims: [], more: false }
  const taken: Taken[] = []
  let seen = 0
  while (taken.length < wanted.limit && seen < MAX_CANDIDATES) {
    const candidates = pick(tx, wanted.lanes, Math.min(wanted.limit - taken.length, MAX_CANDIDATES - seen), turn)
    if (candidates.length === 0) return { claims: toClaims(tx, taken), more: false }
    seen += candidates.length
    for (const candidate of admitted(tx, candidates, work)) taken.push(hold(tx, taker, candidate, work))
  }
  return { claims: toClaims(tx, taken), more: taken.length < wanted.limit }
}

const PARK = "UPDATE tasks SET parked = ? WHERE id = ?"

/** The candidates that may go; the others are parked. The gate is under no limit. */
const admitted = (tx: Tx, candidates: Candidate[], work: boolean): Candidate[] => {
  if (candidates.every(({ paused, limits }) => !paused && (!work || limits.length === 0))) return candidates
  const under = ({ paused, limits }: Candidate): readonly number[] => (work ? (paused ? tx.limits.shared(limits) : limits) : [])
  const judged = candidates.map((candidate) => ({ row: candidate.row, paused: candidate.paused, limits: under(candidate) }))
  const admission = admit(judged, tx.limits.states(new Set(judged.flatMap(({ limits }) => limits))))
  for (const { row, limit } of admission.park) tx.db.run(PARK, limit, row)
  for (const [id, slots] of admission.used) tx.limits.use(id, slots)
  for (const [id, rows] of admission.unpark) tx.limits.unpark(id, rows)
  const take = new Set(admission.take)
  return candidates.filter((candidate) => take.has(candidate.row))
}

const DISPATCH = `
UPDATE tasks SET status = 'dispatched', attempt = attempt + 1, attempt_id = ?, holder = ?, worker = ?, dispatched_at = ?,
  outcome = NULL, error = NULL, exit_code = NULL
WHERE id = ?`

const HOLD = "UPDATE tasks SET attempt_id = ?, holder = ? WHERE id = ?"

/** Mints the attempt id. The candidate itself is changed: copies would cost as much as the statement. */
const hold = (tx: Tx, taker: NonNullable<Taker>, candidate: Candidate, work: boolean): Taken => {
  const taken = candidate as Taken
  taken.attemptId = newAttemptId(tx.now, tx.random.hex128())
  if (work) {
    tx.db.run(DISPATCH, taken.attemptId, taker.seq, taker.name, tx.at, taken.row)
    taken.attempt++
    tellTask(tx, taken, { status: "dispatched", at: tx.at, attempt: taken.attempt })
  } else tx.db.run(HOLD, taken.attemptId, taker.seq, taken.row)
  return taken
}

// -- candidates ------------------------------------------------------------------------------------------------------------------

export interface Candidate {
  row: number
  runSeq: number
  node: number
  path: string
  kind: RowKind
  parent: number | null
  attempt: number
  failures: number
  losses: number
  priority: number
  item: string | null
  limits: readonly number[]
  expanded: number
  childrenTotal: number | null
  childrenFailed: number
  upstream: { failed: number; unmet: number; waived: number }
  paused: boolean
  run: RunState
  /** Minted when it is taken. */
  attemptId: AttemptId | null
}

export interface RunState {
  status: RunStatus
  cancelling: CancelReason | null
  error: string | null
  paused: boolean
}

const READY = "status = 'pending' AND attempt_id IS NULL AND upstream_left = 0 AND parked IS NULL AND available_at IS NULL"

const TOP_PRIORITY = `SELECT priority FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ? ORDER BY priority DESC LIMIT 1`

const NEXT_WORKFLOW = `
SELECT workflow_id FROM tasks INDEXED BY tasks_ready
WHERE ${READY} AND lane = ? AND priority = ? AND workflow_id > ? ORDER BY workflow_id LIMIT 1`

const ROWS = `
SELECT id, run_seq, node, path, kind, parent_id, attempt, failures, losses, priority, item, limits,
  expanded, children_total, children_failed, up_failed, up_unmet, up_waived
FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ? AND priority = ? AND workflow_id = ? ORDER BY run_seq, id LIMIT ?`

const RUN_STATE = "SELECT status, cancelling, error, paused FROM runs WHERE seq = ?"

type Columns = [
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
  number,
  number,
  number,
  number,
]

/** Candidates of the highest priority in these lanes, divided among its workflows in turn. Empty: nothing is ready. */
const pick = (tx: Tx, lanes: readonly string[], want: number, turn: Turn): Candidate[] => {
  const tops = lanes.map((lane) => tx.db.get<[number]>(TOP_PRIORITY, lane)?.[0])
  const priority = tops.reduce<number>((top, p) => Math.max(top, p ?? Number.NEGATIVE_INFINITY), Number.NEGATIVE_INFINITY)
  const here = lanes.filter((_, i) => tops[i] === priority)
  if (here.length === 0) return []
  const workflows = inTurn(workflowsOf(tx, here, priority), turn)
  const picked: Candidate[] = []
  for (const [i, workflowId] of workflows.entries()) {
    const share = Math.ceil((want - picked.length) / (workflows.length - i))
    if (share === 0) break
    picked.push(...rowsOf(tx, here, priority, workflowId, share))
    turn.workflowId = workflowId
  }
  return picked
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
const inTurn = (workflows: number[], turn: Turn): number[] => [
  ...workflows.filter((id) => id > turn.workflowId),
  ...workflows.filter((id) => id <= turn.workflowId),
]

const rowsOf = (tx: Tx, lanes: readonly string[], priority: number, workflowId: number, share: number): Candidate[] => {
  const states = new Map<number, RunState>()
  const stateOf = (seq: number): RunState => {
    let state = states.get(seq)
    if (state === undefined) {
      const found = tx.db.get<[RunStatus, CancelReason | null, string | null, number]>(RUN_STATE, seq)!
      state = { status: found[0], cancelling: found[1], error: found[2], paused: found[3] === 1 }
      states.set(seq, state)
    }
    return state
  }
  const rows = lanes.flatMap((lane) => tx.db.all<Columns>(ROWS, lane, priority, workflowId, share))
  const found = rows.map((columns) => candidateOf(columns, stateOf(columns[1])))
  if (lanes.length === 1) return found
  return found.toSorted((a, b) => a.runSeq - b.runSeq || a.row - b.row).slice(0, share)
}

const candidateOf = (c: Columns, run: RunState): Candidate => {
  const gathering = c[4] !== "task" && c[12] > 0
  return {
    row: c[0],
    runSeq: c[1],
    node: c[2],
    path: c[3],
    kind: c[4],
    parent: c[5],
    attempt: c[6],
    failures: c[7],
    losses: c[8],
    priority: c[9],
    item: c[10],
    limits: limitIds(c[11]),
    expanded: c[12],
    childrenTotal: c[13],
    childrenFailed: c[14],
    upstream: { failed: c[15], unmet: c[16], waived: c[17] },
    paused: run.cancelling === null ? run.paused : !gathering,
    run,
    attemptId: null,
  }
}
