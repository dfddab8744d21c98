// Reads runs. Counts of finished tasks are columns of the run; tasks in flight are counted from their index.

import type { RunId } from "../../../core/model/ids.ts"
import type { JsonObject } from "../../../core/model/json.ts"
import { RUN_STATUSES, type RunStatus, isRunClosed } from "../../../core/model/status.ts"
import { type CancelReason, type NewRun, type RunRow, type Store, TRIGGERS } from "../../contract/store.ts"
import type { Session } from "../tx.ts"

const COLUMNS = `
SELECT r.seq, r.id, w.name, r.workflow_id, r.version_id, v.version, r.status, r.paused, r.cancelling, r."trigger", r.params,
  r.priority, r.logical_date, r.created_at, r.started_at, r.finished_at, r.error, r.private, r.hooks_pending,
  r.tasks_total, r.tasks_success, r.tasks_failed, r.tasks_skipped, r.tasks_cancelled, r.working_dir,
  r.parent_run, r.parent_task, r.root_run_id
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
  RunId | null,
  string | null,
  RunId | null,
]

const BY_SEQ = `${COLUMNS} WHERE r.seq = ?`
const BY_ID = `${COLUMNS} WHERE r.id = ?`

export const readRun = (session: Session, seq: number): RunRow | null => runOf(session, session.db.get<Columns>(BY_SEQ, seq))

export const getRun = (session: Session, id: RunId): RunRow | null => runOf(session, session.db.get<Columns>(BY_ID, id))

const OLDER = "(created_at, id) < (?1, ?2) AND created_at >= ?3"
const PAGE = "ORDER BY created_at DESC, id DESC LIMIT ?4 + 0"

const LIST = `SELECT seq, created_at, id FROM runs INDEXED BY runs_created WHERE ${OLDER} ${PAGE}`

const LIST_OF_WORKFLOW = `
SELECT seq, created_at, id FROM runs INDEXED BY runs_of_workflow WHERE workflow_id = ?5 AND ${OLDER} ${PAGE}`

const LIST_OF_KIND = `
SELECT seq, created_at, id FROM runs INDEXED BY runs_by_kind WHERE "trigger" = ?5 AND status = ?6 AND ${OLDER} ${PAGE}`

const LIST_OF_WORKFLOW_AND_KIND = `
SELECT seq, created_at, id FROM runs INDEXED BY runs_of_workflow_by_kind
WHERE workflow_id = ?5 AND "trigger" = ?6 AND status = ?7 AND ${OLDER} ${PAGE}`

const WORKFLOW = "SELECT id FROM workflows WHERE name = ?"

/** Text that sorts after every instant. */
const LATEST = "~"

type ListedRun = [seq: number, createdAt: string, id: RunId]

type RunQuery = Parameters<Store["listRuns"]>[0]

/**
 * Lists runs, newest first. A filter by status or trigger reads a page of every matching kind by the index of kinds and merges
 * them, so that its cost does not depend on the number of other runs.
 */
export const listRuns = (session: Session, query: RunQuery): RunRow[] => {
  const { createdAt, id } = upperBound(query)
  const page = [createdAt, id, query.createdAfter ?? "", query.limit] as const
  const workflow = query.workflow === undefined ? null : session.db.get<[number]>(WORKFLOW, query.workflow)
  if (workflow === undefined) return []
  const found = (): ListedRun[] => {
    if (query.status === undefined && query.trigger === undefined)
      return workflow === null
        ? session.db.all<ListedRun>(LIST, ...page)
        : session.db.all<ListedRun>(LIST_OF_WORKFLOW, ...page, workflow[0])
    return kindsOf(query).flatMap(([trigger, status]) =>
      workflow === null
        ? session.db.all<ListedRun>(LIST_OF_KIND, ...page, trigger, status)
        : session.db.all<ListedRun>(LIST_OF_WORKFLOW_AND_KIND, ...page, workflow[0], trigger, status),
    )
  }
  return newest(found(), query.limit).map(([seq]) => readRun(session, seq)!)
}

/** Returns the earlier of the cursor and `createdBefore`. No run has an empty id, so it excludes runs of that instant. */
const upperBound = ({ before, createdBefore }: RunQuery): { createdAt: string; id: string } => {
  const cursor = before ?? { createdAt: LATEST, id: LATEST }
  return createdBefore !== undefined && createdBefore <= cursor.createdAt ? { createdAt: createdBefore, id: "" } : cursor
}

const kindsOf = ({ trigger, status }: RunQuery): [NewRun["trigger"], RunStatus][] => {
  const statuses = status === undefined ? RUN_STATUSES : [status]
  return (trigger === undefined ? TRIGGERS : [trigger]).flatMap((one) =>
    statuses.map((each): [typeof one, typeof each] => [one, each]),
  )
}

const newest = (runs: ListedRun[], limit: number): ListedRun[] =>
  runs.toSorted((a, b) => compare(b[1], a[1]) || compare(b[2], a[2])).slice(0, limit)

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const IN_FLIGHT = `
SELECT status, count(*) FROM tasks INDEXED BY tasks_in_flight
WHERE run_seq = ? AND holder IS NOT NULL AND status IN ('dispatched', 'running') GROUP BY status`

const WAITING =
  "SELECT count(*) FROM tasks INDEXED BY tasks_waiting WHERE run_seq = ? AND waiting_on IS NOT NULL AND holder IS NULL"

const runOf = (session: Session, c: Columns | undefined): RunRow | null => {
  if (c === undefined) return null
  const status = c[6]
  const inFlight = isRunClosed(status) ? [] : session.db.all<["dispatched" | "running", number]>(IN_FLIGHT, c[0])
  const [total, success, failed, skipped, cancelled] = [c[19], c[20], c[21], c[22], c[23]]
  const tasks = { pending: 0, dispatched: 0, running: 0, success, failed, skipped, cancelled }
  for (const [state, count] of inFlight) tasks[state] = count
  if (!isRunClosed(status)) tasks.running += session.db.get<[number]>(WAITING, c[0])![0]
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
    rootRunId: c[27],
    parent: c[25] === null ? null : { runId: c[25], task: c[26]! },
    hooksPending: c[18],
    tasks,
  }
}
