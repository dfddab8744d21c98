// Reads for the run view, by the index of task keys.

import type { RunId } from "../../../core/model/ids.ts"
import type { AttemptState, TaskStatus } from "../../../core/model/status.ts"
import type { WaitingOn } from "../../../core/model/waiting-on.ts"
import { hasPast, type InstanceRow, type PastAttempt, type RunViewStore, type RowCount } from "../../contract/run-view.ts"
import type { RowKind } from "../../contract/store.ts"
import type { Access, Session } from "../tx.ts"

export const runView = ({ read }: Access): RunViewStore => ({
  listInstances: (query) => read((s) => listInstances(s, query)),
  countRows: (runId) => read((s) => countRows(s, runId)),
})

const INSTANCES = `
SELECT id, node, path, status, attempt, available_at, waiting_on, dispatched_at, started_at, finished_at
FROM tasks INDEXED BY tasks_key
WHERE run_seq = (SELECT seq FROM runs WHERE id = ?1) AND (node, path) > (?2, ?3) AND kind = 'task'
ORDER BY node, path LIMIT ?4 + 0`

type Columns = [
  number,
  number,
  string,
  TaskStatus,
  number,
  string | null,
  string | null,
  string | null,
  string | null,
  string | null,
]

const PAST = `
SELECT task_id, attempt, state, dispatched_at, started_at, finished_at FROM attempts
WHERE task_id IN (SELECT value FROM json_each(?)) ORDER BY task_id, attempt`

type PastColumns = [number, number, AttemptState, string | null, string | null, string | null]

const START = { node: -1, path: "" }

export const listInstances = (
  session: Session,
  { runId, after = START, limit }: Parameters<RunViewStore["listInstances"]>[0],
): InstanceRow[] => {
  const rows = session.db.all<Columns>(INSTANCES, runId, after.node, after.path, limit)
  const retried = rows.filter((row) => hasPast({ attempt: row[4], status: row[3] })).map((row) => row[0])
  const past = retried.length === 0 ? new Map<number, PastAttempt[]>() : pastOf(session, retried)
  return rows.map((c) => ({
    node: c[1],
    path: c[2],
    status: c[3],
    attempt: c[4],
    availableAt: c[5],
    waitingOn: c[6] === null ? null : (JSON.parse(c[6]) as WaitingOn).kind,
    dispatchedAt: c[7],
    startedAt: c[8],
    finishedAt: c[9],
    past: past.get(c[0]) ?? [],
  }))
}

const pastOf = (session: Session, ids: readonly number[]): Map<number, PastAttempt[]> =>
  new Map(
    [...Map.groupBy(session.db.all<PastColumns>(PAST, JSON.stringify(ids)), (row) => row[0])].map(([id, rows]) => [
      id,
      rows.map((c) => ({ attempt: c[1], state: c[2], dispatchedAt: c[3], startedAt: c[4], finishedAt: c[5] })),
    ]),
  )

const COUNTS = `
SELECT node, kind, status, count(*), min(started_at), max(finished_at) FROM tasks INDEXED BY tasks_key
WHERE run_seq = (SELECT seq FROM runs WHERE id = ?) GROUP BY node, kind, status`

export const countRows = (session: Session, runId: RunId): RowCount[] =>
  session.db
    .all<[number, RowKind, TaskStatus, number, string | null, string | null]>(COUNTS, runId)
    .map(([node, kind, status, count, startedAt, finishedAt]) => ({ node, kind, status, count, startedAt, finishedAt }))
