// A task row as the verbs of `advance` need it, and the insertion of new top-level rows.

import type { NewRow } from "../../../core/model/row.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import type { RowKind } from "../../contract/store.ts"
import { limitIds, limitText } from "../claim/limits.ts"
import type { Tx } from "../connection/tx.ts"

/**
 * A row grows while it runs: the attempt's id, its times, its output. What it begins with holds that place, so that its page is not
 * split on the way; who writes those columns makes it smaller.
 */
export const ROOM = { pending: "zeroblob(140)", dispatched: "zeroblob(60)", ended: "NULL" } as const

export interface LoadedRow {
  id: number
  runSeq: number
  node: number
  path: string
  kind: RowKind
  hook: boolean
  status: TaskStatus
  attemptId: string | null
  attempt: number
  parent: number | null
  limits: readonly number[]
  workflowId: number
  childrenCreated: number
  childrenTotal: number | null
  /** It has begun. Groups hold slots from then on. */
  started: boolean
  lane: string
  /** It runs without a slot. */
  isWaiting: boolean
}

const LOAD = `
SELECT t.id, t.run_seq, t.node, t.path, t.kind, t.hook, t.status, t.attempt_id, t.attempt, t.parent_id, t.limits, t.workflow_id,
  t.children_created, t.children_total, t.lane, t.waiting_on IS NOT NULL, t.started_at IS NOT NULL
FROM json_each(?) AS wanted CROSS JOIN tasks t ON t.id = wanted.value`

type Columns = [
  number,
  number,
  number,
  string,
  RowKind,
  number,
  TaskStatus,
  string | null,
  number,
  number | null,
  string | null,
  number,
  number,
  number | null,
  string,
  number,
  number,
]

export const loadRows = (tx: Tx, ids: readonly number[]): Map<number, LoadedRow> => {
  const rows = new Map<number, LoadedRow>()
  if (ids.length === 0) return rows
  for (const c of tx.db.all<Columns>(LOAD, JSON.stringify(ids)))
    rows.set(c[0], {
      id: c[0],
      runSeq: c[1],
      node: c[2],
      path: c[3],
      kind: c[4],
      hook: c[5] === 1,
      status: c[6],
      attemptId: c[7],
      attempt: c[8],
      parent: c[9],
      limits: limitIds(c[10]),
      workflowId: c[11],
      childrenCreated: c[12],
      childrenTotal: c[13],
      lane: c[14],
      isWaiting: c[15] === 1,
      started: c[16] === 1,
    })
  return rows
}

/** The list holds scalars: of anything else, each `->>` would read its text anew. */
const INSERT = `
INSERT INTO tasks (run_seq, workflow_id, hook, path, status, kind, lane, priority, limits, node, upstream_pending, room)
SELECT ?1, ?2, ?3, '', 'pending', ?4, ?5, ?6, ?7, ?8 + key, value, ${ROOM.pending} FROM json_each(?9)`

/** Rows that follow each other and differ in nothing but their node and what they wait for are made by one statement. */
export const insertRows = (tx: Tx, run: { seq: number; workflowId: number }, rows: readonly NewRow[], hook: boolean): void => {
  for (let first = 0; first < rows.length;) {
    const { node, kind, lane, priority, limits } = rows[first]!
    let next = first + 1
    while (next < rows.length && alike(rows[first]!, rows[next]!, next - first)) next++
    const text = limitText(limits.length === 0 ? [] : tx.limits.ensure(limits))
    const left = JSON.stringify(rows.slice(first, next).map((row) => row.upstreamPending))
    tx.db.run(INSERT, run.seq, run.workflowId, hook ? 1 : 0, kind, lane, priority, text, node, left)
    first = next
  }
}

const alike = (a: NewRow, b: NewRow, apart: number): boolean =>
  b.node === a.node + apart &&
  b.kind === a.kind &&
  b.lane === a.lane &&
  b.priority === a.priority &&
  b.limits.length === a.limits.length &&
  b.limits.every(({ key, cap }, i) => key === a.limits[i]!.key && cap === a.limits[i]!.cap)
