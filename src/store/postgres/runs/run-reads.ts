// Reads runs. Counts of finished tasks are columns of the run; tasks in flight are counted from the table of rows in flight.

import type { RunId } from "../../../core/model/ids.ts"
import type { RunRow } from "../../contract/store.ts"
import {
  type InFlightCounts,
  kindsOf,
  RUN_COLUMNS,
  type RunColumns,
  runOf,
  type RunQuery,
  upperBound,
} from "../../shared/run-rows.ts"
import { ALLOWED, allowedText } from "../admin/allowed.ts"
import { IN_FLIGHT_ROWS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

const COLUMNS = `
SELECT ${RUN_COLUMNS},
  f.dispatched, f.running + (
    SELECT count(*) FROM tasks t
    WHERE t.run_seq = r.seq AND t.waiting_on IS NOT NULL AND t.holder IS NULL AND NOT t.hook)::int AS running
FROM runs r JOIN workflows w ON w.id = r.workflow_id JOIN versions v ON v.id = r.version_id
CROSS JOIN LATERAL (
  SELECT (count(*) FILTER (WHERE t.status = 'dispatched'))::int AS dispatched,
    (count(*) FILTER (WHERE t.status = 'running'))::int AS running
  FROM ${IN_FLIGHT_ROWS("WHERE run_seq = r.seq")} WHERE t.kind = 'task' AND NOT t.hook
) f`

type Columns = RunColumns & InFlightCounts

const toRun = ({ dispatched, running, ...columns }: Columns): RunRow => runOf(columns, { dispatched, running })

const BY_SEQS = statement("runs_by_seq", `${COLUMNS} WHERE r.seq = ANY (:seqs::bigint[])`)

export const readRuns = async (connection: SqlRunner, seqs: Iterable<number>): Promise<Map<number, RunRow>> => {
  const rows = await connection.run<Columns>(BY_SEQS, { seqs: [...new Set(seqs)] })
  return new Map(rows.map((row) => [row.seq, toRun(row)]))
}

const BY_IDS = statement("runs_by_id", `${COLUMNS} WHERE r.id = ANY (:ids::uuid[])`)

/** Returns the runs with these ids in the same order, null for an id that does not exist. */
export const getRuns = async (connection: SqlRunner, ids: readonly RunId[]): Promise<(RunRow | null)[]> => {
  const rows = await connection.run<Columns>(BY_IDS, { ids: [...new Set(ids)] })
  const runs = new Map(rows.map((row) => [row.id, toRun(row)]))
  return ids.map((id) => runs.get(id) ?? null)
}

const ID_OF_NUMBER = statement(
  "run_of_number",
  `SELECT r.id FROM workflows w JOIN runs r ON r.workflow_id = w.id
   WHERE w.name = :workflow AND r.number = :number::bigint AND r.number > 0`,
)

export const findRunId = async (connection: SqlRunner, query: { workflow: string; number: number }): Promise<RunId | null> =>
  (await connection.run<{ id: RunId }>(ID_OF_NUMBER, query))[0]?.id ?? null

const OLDER = "(r.created_at, r.id) < (:beforeAt::timestamptz, :beforeId::uuid) AND r.created_at >= :from::timestamptz"
const NEWEST = "ORDER BY r.created_at DESC, r.id DESC LIMIT :limit::int"
/** Order of the indexes by workflow and by kind. No other index has it, so no plan reads all runs. */
export const NEWEST_OF = "ORDER BY r.created_at DESC NULLS LAST, r.id DESC NULLS LAST"
const OF_WORKFLOW = "r.workflow_id = (SELECT id FROM workflows WHERE name = :workflow)"

const LIST = statement("runs_list", `${COLUMNS} WHERE ${OLDER} ${NEWEST}`)

const LIST_OF_WORKFLOW = statement(
  "runs_list_of_workflow",
  `${COLUMNS} WHERE ${OF_WORKFLOW} AND ${OLDER} ${NEWEST_OF} LIMIT :limit::int`,
)

const LIST_OF_LOGICAL_DATE = statement(
  "runs_list_of_logical_date",
  `${COLUMNS} WHERE ${OF_WORKFLOW} AND r.logical_date = :logicalDate::text AND ${OLDER} ${NEWEST_OF} LIMIT :limit::int`,
)

/** Reads a page of every matching kind and merges them. */
const PAGES = (kinds: string, condition: string): string => `${COLUMNS} WHERE r.seq = ANY (ARRAY(
  SELECT p.seq FROM ${kinds} AS k (trigger, status) CROSS JOIN LATERAL (
    SELECT r.seq, r.created_at, r.id FROM runs r WHERE ${condition} r.trigger = k.trigger AND r.status = k.status AND ${OLDER}
    ${NEWEST_OF} LIMIT :limit::int
  ) p ORDER BY p.created_at DESC, p.id DESC LIMIT :limit::int
)) ${NEWEST_OF}`

const LIST_OF_KINDS = statement("runs_list_of_kinds", PAGES("unnest(:triggers::text[], :statuses::text[])", ""))

const LIST_OF_WORKFLOW_AND_KINDS = statement(
  "runs_list_of_workflow_and_kinds",
  PAGES("unnest(:triggers::text[], :statuses::text[])", `${OF_WORKFLOW} AND`),
)

/** Reads a page of every allowed workflow, and of every matching kind if there are kinds, and merges them. */
const PAGES_OF_ALLOWED = (kinds: string, condition: string): string => `${COLUMNS} WHERE r.seq = ANY (ARRAY(
  SELECT p.seq FROM workflows w ${kinds} CROSS JOIN LATERAL (
    SELECT r.seq, r.created_at, r.id FROM runs r WHERE r.workflow_id = w.id AND ${condition} ${OLDER}
    ${NEWEST_OF} LIMIT :limit::int
  ) p WHERE (:workflow::text IS NULL OR w.name = :workflow) AND ${ALLOWED}
  ORDER BY p.created_at DESC, p.id DESC LIMIT :limit::int
)) ${NEWEST_OF}`

const LIST_ALLOWED = statement("runs_list_allowed", PAGES_OF_ALLOWED("", ""))

const LIST_ALLOWED_OF_KINDS = statement(
  "runs_list_allowed_of_kinds",
  PAGES_OF_ALLOWED(
    "CROSS JOIN unnest(:triggers::text[], :statuses::text[]) AS k (trigger, status)",
    "r.trigger = k.trigger AND r.status = k.status AND",
  ),
)

/** Sorts after every run. */
const LATEST = { createdAt: "infinity", id: "ffffffff-ffff-ffff-ffff-ffffffffffff" }
/** Sorts before every run of the same instant. */
const FIRST_ID = "00000000-0000-0000-0000-000000000000"

/**
 * Lists runs, newest first. A filter by workflows, status or trigger reads a page of every matching workflow and kind by an index and
 * merges them, so that its cost does not depend on the number of other runs.
 */
export const listRuns = async (connection: SqlRunner, query: RunQuery): Promise<RunRow[]> => {
  const { status, trigger, workflow, logicalDate } = query
  const { createdAt, id } = upperBound(query, LATEST, FIRST_ID)
  const page = { beforeAt: createdAt, beforeId: id, from: query.createdAfter ?? "-infinity", limit: query.limit }
  const allowed = query.only === undefined ? null : { ...page, workflow: workflow ?? null, only: allowedText(query) }
  const list = (): Promise<Columns[]> => {
    if (workflow !== undefined && logicalDate !== undefined)
      return connection.run(LIST_OF_LOGICAL_DATE, { ...page, workflow, logicalDate })
    if (status === undefined && trigger === undefined) {
      if (allowed !== null) return connection.run(LIST_ALLOWED, allowed)
      return workflow === undefined ? connection.run(LIST, page) : connection.run(LIST_OF_WORKFLOW, { ...page, workflow })
    }
    const kinds = kindsOf(query)
    const columns = {
      triggers: kinds.map((kind) => kind.trigger),
      statuses: kinds.map((kind) => kind.status),
    }
    if (allowed !== null) return connection.run(LIST_ALLOWED_OF_KINDS, { ...allowed, ...columns })
    return workflow === undefined
      ? connection.run(LIST_OF_KINDS, { ...page, ...columns })
      : connection.run(LIST_OF_WORKFLOW_AND_KINDS, { ...page, workflow, ...columns })
  }
  return (await list()).map(toRun)
}
