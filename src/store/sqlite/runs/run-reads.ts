// Reads runs. Counts of finished tasks are columns of the run; tasks in flight are counted from their index.

import type { RunId } from "../../../core/model/ids.ts"
import { isRunClosed } from "../../../core/model/status.ts"
import type { RunRow } from "../../contract/store.ts"
import { kindsOf, RUN_COLUMNS, type RunColumns, runOf, type RunQuery, upperBound } from "../../shared/run-rows.ts"
import { allowed, allowedText } from "../admin/allowed.ts"
import type { StoreContext } from "../tx.ts"

const COLUMNS = `
SELECT ${RUN_COLUMNS} FROM runs r JOIN workflows w ON w.id = r.workflow_id JOIN versions v ON v.id = r.version_id`

const BY_SEQ = `${COLUMNS} WHERE r.seq = ?`
const BY_ID = `${COLUMNS} WHERE r.id = ?`

export const readRun = (context: StoreContext, seq: number): RunRow | null =>
  withCounts(context, context.db.find<RunColumns>(BY_SEQ, seq))

/** Reads a run that this transaction has created: none of its tasks is in flight. */
export const readNewRun = ({ db }: StoreContext, seq: number): RunRow =>
  runOf(db.find<RunColumns>(BY_SEQ, seq)!, NONE_IN_FLIGHT)

const NONE_IN_FLIGHT = { dispatched: 0, running: 0 }

export const getRun = (context: StoreContext, id: RunId): RunRow | null =>
  withCounts(context, context.db.find<RunColumns>(BY_ID, id))

const ID_OF_NUMBER = `
SELECT r.id FROM workflows w JOIN runs r INDEXED BY runs_number ON r.workflow_id = w.id
WHERE w.name = ? AND r.number = ? AND r.number > 0`

export const findRunId = (context: StoreContext, { workflow, number }: { workflow: string; number: number }): RunId | null =>
  context.db.get<[RunId]>(ID_OF_NUMBER, workflow, number)?.[0] ?? null

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

const LIST_OF_LOGICAL_DATE = `
SELECT seq, created_at, id FROM runs INDEXED BY runs_logical_date
WHERE workflow_id = ?5 AND logical_date = ?6 AND ${OLDER} ${PAGE}`

const WORKFLOW = "SELECT id FROM workflows WHERE name = ?"

const ALLOWED_WORKFLOWS = `SELECT w.id FROM workflows w WHERE (?1 IS NULL OR w.name = ?1) AND ${allowed("?2")}`

/** Text that sorts after every instant. */
const LATEST = "~"

type ListedRun = [seq: number, createdAt: string, id: RunId]

/**
 * Lists runs, newest first. A filter by workflows, status or trigger reads a page of every matching workflow and kind by an index and
 * merges them, so that its cost does not depend on the number of other runs.
 */
export const listRuns = (context: StoreContext, query: RunQuery): RunRow[] => {
  const { createdAt, id } = upperBound(query, { createdAt: LATEST, id: LATEST }, "")
  const page = [createdAt, id, query.createdAfter ?? "", query.limit] as const
  const kinds = query.status === undefined && query.trigger === undefined ? null : kindsOf(query)
  const list = (workflow: number | null): ListedRun[] => {
    if (query.logicalDate !== undefined)
      return context.db.all<ListedRun>(LIST_OF_LOGICAL_DATE, ...page, workflow, query.logicalDate)
    if (kinds === null)
      return workflow === null
        ? context.db.all<ListedRun>(LIST, ...page)
        : context.db.all<ListedRun>(LIST_OF_WORKFLOW, ...page, workflow)
    return kinds.flatMap(({ trigger, status }) =>
      workflow === null
        ? context.db.all<ListedRun>(LIST_OF_KIND, ...page, trigger, status)
        : context.db.all<ListedRun>(LIST_OF_WORKFLOW_AND_KIND, ...page, workflow, trigger, status),
    )
  }
  return newest(workflowsOf(context, query).flatMap(list), query.limit).map(([seq]) => readRun(context, seq)!)
}

/** Returns the workflows of a query; `[null]`: all. */
const workflowsOf = ({ db }: StoreContext, query: RunQuery): (number | null)[] => {
  const { workflow = null, only } = query
  if (only !== undefined) return db.all<[number]>(ALLOWED_WORKFLOWS, workflow, allowedText(query)).map(([id]) => id)
  return workflow === null ? [null] : db.all<[number]>(WORKFLOW, workflow).map(([id]) => id)
}

const newest = (runs: ListedRun[], limit: number): ListedRun[] =>
  runs.toSorted((a, b) => compare(b[1], a[1]) || compare(b[2], a[2])).slice(0, limit)

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const IN_FLIGHT = `
SELECT status, count(*) FROM tasks INDEXED BY tasks_in_flight
WHERE run_seq = ? AND holder IS NOT NULL AND status IN ('dispatched', 'running') GROUP BY status`

const WAITING =
  "SELECT count(*) FROM tasks INDEXED BY tasks_waiting WHERE run_seq = ? AND waiting_on IS NOT NULL AND holder IS NULL"

const withCounts = (context: StoreContext, columns: RunColumns | undefined): RunRow | null => {
  if (columns === undefined) return null
  const counts = { dispatched: 0, running: 0 }
  if (!isRunClosed(columns.status)) {
    for (const [status, count] of context.db.all<[keyof typeof counts, number]>(IN_FLIGHT, columns.seq)) counts[status] = count
    counts.running += context.db.get<[number]>(WAITING, columns.seq)![0]
  }
  return runOf(columns, counts)
}
