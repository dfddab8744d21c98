// Runs as they leave. Counts of ended instances are columns; live ones are counted from the index of held rows.

import type { RunId } from "../../core/ids.ts"
import type { JsonObject } from "../../core/json.ts"
import { type RunStatus, runEnded } from "../../core/status.ts"
import type { CancelReason, RunRow } from "../store.ts"
import type { Session } from "./tx.ts"

const COLUMNS = `
SELECT r.seq, r.id, w.name, r.workflow_id, r.version_id, v.version, r.status, r.paused, r.cancelling, r."trigger", r.params,
  r.priority, r.logical_date, r.created_at, r.started_at, r.finished_at, r.error, r.private, r.hooks_left,
  r.tasks_total, r.tasks_success, r.tasks_failed, r.tasks_skipped, r.tasks_cancelled, r.working_dir
FROM runs r JOIN workflows w ON w.id = r.workflow_id JOIN versions v ON v.id = r.version_id`

type Columns = [
  number,
  RunId,
  string,
  number,
  number,
  number,
  RunStatus,
  number,
  CancelReason | null,
  string,
  string,
  number,
  string | null,
  string,
  string | null,
  string | null,
  string | null,
  number,
  number,
  number,
  number,
  number,
  number,
  number,
  string | null,
]

const BY_SEQ = `${COLUMNS} WHERE r.seq = ?`
const BY_ID = `${COLUMNS} WHERE r.id = ?`

export const readRun = (session: Session, seq: number): RunRow | null => runOf(session, session.db.get<Columns>(BY_SEQ, seq))

export const getRun = (session: Session, id: RunId): RunRow | null => runOf(session, session.db.get<Columns>(BY_ID, id))

const LIST = `${COLUMNS}
WHERE (r.created_at, r.id) < (?1, ?2) AND (?3 IS NULL OR r.status = ?3) ORDER BY r.created_at DESC, r.id DESC LIMIT ?4`

const LIST_OF_WORKFLOW = `${COLUMNS}
WHERE w.name = ?5 AND r.workflow_id = w.id AND (r.created_at, r.id) < (?1, ?2) AND (?3 IS NULL OR r.status = ?3)
ORDER BY r.created_at DESC, r.id DESC LIMIT ?4`

/** Sorts after every instant. */
const LATEST = "~"

export const listRuns = (
  session: Session,
  query: { workflow?: string; status?: RunStatus; limit: number; before?: { createdAt: string; id: string } },
): RunRow[] => {
  const { createdAt, id } = query.before ?? { createdAt: LATEST, id: LATEST }
  const found =
    query.workflow === undefined
      ? session.db.all<Columns>(LIST, createdAt, id, query.status ?? null, query.limit)
      : session.db.all<Columns>(LIST_OF_WORKFLOW, createdAt, id, query.status ?? null, query.limit, query.workflow)
  return found.map((columns) => runOf(session, columns)!)
}

/** Of a run that has not ended: it has no hooks yet, and nobody holds a container but its gate. */
const LIVE = `
SELECT status, count(*) FROM tasks INDEXED BY tasks_held
WHERE run_seq = ? AND holder IS NOT NULL AND status IN ('dispatched', 'running') GROUP BY status`

const runOf = (session: Session, c: Columns | undefined): RunRow | null => {
  if (c === undefined) return null
  const status = c[6]
  const live = runEnded(status) ? [] : session.db.all<["dispatched" | "running", number]>(LIVE, c[0])
  const [total, success, failed, skipped, cancelled] = [c[19], c[20], c[21], c[22], c[23]]
  const tasks = { pending: 0, dispatched: 0, running: 0, success, failed, skipped, cancelled }
  for (const [state, count] of live) tasks[state] = count
  tasks.pending = total - success - failed - skipped - cancelled - tasks.dispatched - tasks.running
  return {
    seq: c[0],
    id: c[1],
    workflow: c[2],
    workflowId: c[3],
    versionId: c[4],
    version: c[5],
    status,
    paused: c[7] === 1,
    cancelling: c[8],
    trigger: c[9],
    params: JSON.parse(c[10]) as JsonObject,
    priority: c[11],
    logicalDate: c[12],
    createdAt: c[13],
    startedAt: c[14],
    finishedAt: c[15],
    error: c[16],
    private: c[17] === 1,
    workingDir: c[24],
    hooksLeft: c[18],
    tasks,
  }
}
