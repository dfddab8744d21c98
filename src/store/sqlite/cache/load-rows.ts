// Task rows as `advance` and the changes by hand read them.

import type { TaskStatus } from "../../../core/model/status.ts"
import type { RowKind } from "../../contract/store.ts"
import { limitIds } from "../connection/limit-column.ts"
import type { Database } from "../connection/database.ts"

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
  /** Upstream tasks, or dependencies of a job, that have not finished. */
  upstreamPending: number
  /** Name of a job; null for tasks. */
  jobName: string | null
  parent: number | null
  limits: readonly number[]
  workflowId: number
  childrenCreated: number
  childrenTotal: number | null
  /** The row has a start time. A group holds its slots from then on. */
  hasStartTime: boolean
  lane: string
  /** The row is running without a slot. */
  isWaiting: boolean
  /** Number of times that it was resumed in this attempt. */
  resumes: number
  /** Somebody asked for the end of its attempt (advance/stop-requests.ts). */
  stopRequested: boolean
}

const LOAD = `
SELECT t.id, t.run_seq, t.node, t.path, t.kind, t.hook, t.status, t.attempt_id, t.attempt, t.parent_id, t.limits, t.workflow_id,
  t.children_created, t.children_total, t.lane, t.waiting_on IS NOT NULL, t.started_at IS NOT NULL, t.resumes,
  t.upstream_pending, iif(t.run_seq = 0, t.item, NULL), s.task_id IS NOT NULL
FROM json_each(?) AS wanted CROSS JOIN tasks t ON t.id = wanted.value LEFT JOIN stop_requests s ON s.task_id = t.id`

type Columns = [
  id: number,
  runSeq: number,
  node: number,
  path: string,
  kind: RowKind,
  hook: number,
  status: TaskStatus,
  attemptId: string | null,
  attempt: number,
  parent: number | null,
  limits: string | null,
  workflowId: number,
  childrenCreated: number,
  childrenTotal: number | null,
  lane: string,
  isWaiting: number,
  hasStartTime: number,
  resumes: number,
  upstreamPending: number,
  item: string | null,
  stopRequested: number,
]

/** Returns the rows that exist, by id. */
export const loadRows = (db: Database, ids: readonly number[]): Map<number, LoadedRow> => {
  const rows = new Map<number, LoadedRow>()
  if (ids.length === 0) return rows
  for (const c of db.all<Columns>(LOAD, JSON.stringify(ids)))
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
      hasStartTime: c[16] === 1,
      resumes: c[17],
      upstreamPending: c[18],
      jobName: c[19],
      stopRequested: c[20] === 1,
    })
  return rows
}
