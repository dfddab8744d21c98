// Reads deployed workflows and their versions. A list reads the rows of workflows and, for each, the newest runs by an index; its
// cost does not depend on the history.

import type { Catalog, VersionRow, WorkflowRow } from "../../contract/catalog.ts"
import { groupByColumn } from "../../shared/codec.ts"
import { LAST_RUN_COLUMNS, VERSION_COLUMNS, WORKFLOW_COLUMNS } from "../../shared/workflow-rows.ts"
import type { Access } from "../tx.ts"
import { NEWEST_OF } from "../runs/run-reads.ts"
import {
  activeRunsOf,
  dueSchedules,
  fireTicks,
  lastTickRun,
  listSchedules,
  moveSchedules,
  nextTickMs,
  schedulesAhead,
  listSkippedTicks,
} from "./schedules.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { ALLOWED, allowedText } from "./allowed.ts"
import { bundlesInUse, removeWorkflow, setWorkflowPaused } from "./workflows.ts"
import type { Workflows } from "../cache/workflows.ts"
import { NOW } from "../connection/store-clock.ts"

export const catalog = ({ read, writeAndNotify, workflows }: Access): Catalog => ({
  listWorkflows: async (query) => withCompiled(workflows, await read((connection) => listWorkflows(connection, query))),
  getWorkflow: async (name) => {
    const [found] = await read((connection) => connection.run<Columns>(GET, { name }))
    return found === undefined ? null : { ...found, compiled: await workflows.compiled(found.versionId) }
  },
  getTags: (workflow) => read((connection) => getTags(connection, workflow)),
  listVersions: (query) => read((connection) => listVersions(connection, query)),
  bundlesInUse: (hashes) => read((connection) => bundlesInUse(connection, hashes)),
  removeWorkflow: (name) => writeAndNotify((tx) => removeWorkflow(tx, name)),
  setWorkflowPaused: (input) => writeAndNotify((tx) => setWorkflowPaused(tx, input)),
  listSchedules: (query) => read((connection) => listSchedules(connection, query)),
  currentTime: () => read(currentTime),
  dueSchedules: (limit) => read((connection) => dueSchedules(connection, limit)),
  nextTickMs: () => read(nextTickMs),
  fireTicks: async (ticks) => {
    await workflows.load(ticks.flatMap(({ run }) => run?.versionId ?? []))
    return writeAndNotify((tx) => fireTicks(tx, ticks))
  },
  schedulesAhead: () => read(schedulesAhead),
  moveSchedules: (moves) => writeAndNotify((tx) => moveSchedules(tx, moves)),
  activeRunsOf: (scheduleId) => read((connection) => activeRunsOf(connection, scheduleId)),
  lastTickRun: (schedule) => read((connection) => lastTickRun(connection, schedule)),
  listSkippedTicks: (schedule, limit) => read((connection) => listSkippedTicks(connection, schedule, limit)),
})

const CURRENT_TIME = statement("current_time", `SELECT floor(extract(epoch FROM ${NOW}) * 1000)::float8 AS ms`)

const currentTime = async (connection: SqlRunner): Promise<number> =>
  (await connection.run<{ ms: number }>(CURRENT_TIME))[0]!.ms

type Columns = Omit<WorkflowRow, "compiled">

type Listed = Omit<Awaited<ReturnType<Catalog["listWorkflows"]>>[number], "workflow"> & { workflow: Columns }

const withCompiled = async (workflows: Workflows, listed: readonly Listed[]): ReturnType<Catalog["listWorkflows"]> => {
  const complete: Awaited<ReturnType<Catalog["listWorkflows"]>> = []
  for (const { workflow, ...rest } of listed)
    complete.push({ workflow: { ...workflow, compiled: await workflows.compiled(workflow.versionId) }, ...rest })
  return complete
}

const LIST = statement(
  "workflows_list",
  `${WORKFLOW_COLUMNS}
   WHERE w.name > :after AND (:search::text IS NULL OR strpos(lower(w.name), lower(:search)) > 0)
     AND (:tag::text IS NULL OR w.tags::jsonb ? :tag) AND ${ALLOWED}
   ORDER BY w.name LIMIT :limit::int`,
)

const LAST_RUNS = statement(
  "workflows_last_runs",
  `SELECT w.id AS workflow, ${LAST_RUN_COLUMNS}
   FROM unnest(:ids::bigint[]) AS w (id) CROSS JOIN LATERAL (
     SELECT * FROM runs r WHERE r.workflow_id = w.id ${NEWEST_OF} LIMIT :runs::int
   ) r ORDER BY r.created_at DESC, r.id DESC`,
)

const NEXT_AT = statement(
  "workflows_next_at",
  "SELECT workflow_id, min(next_at) AS next FROM schedules WHERE workflow_id = ANY (:ids::bigint[]) AND active GROUP BY workflow_id",
)

type LastRun = Listed["lastRuns"][number]

const listWorkflows = async (connection: SqlRunner, query: Parameters<Catalog["listWorkflows"]>[0]): Promise<Listed[]> => {
  const { after = "", search = null, tag = null, limit } = query
  const rows = await connection.run<Columns>(LIST, { after, search, tag, limit, only: allowedText(query) })
  const ids = rows.map(({ id }) => id)
  const lastRuns = connection.run<LastRun & { workflow: number }>(LAST_RUNS, { ids, runs: query.runs })
  const nextAt = connection.run<{ workflow_id: number; next: string | null }>(NEXT_AT, { ids })
  const runs = groupByColumn(await lastRuns, "workflow")
  const next = new Map((await nextAt).map((row) => [row.workflow_id, row.next]))
  return rows.map((workflow) => ({
    workflow,
    lastRuns: runs.get(workflow.id) ?? [],
    nextAt: next.get(workflow.id) ?? null,
  }))
}

const GET = statement("workflows_get", `${WORKFLOW_COLUMNS} WHERE w.name = :name`)

const TAGS = statement("workflows_tags", "SELECT tags FROM workflows WHERE name = :workflow")

const getTags = async (connection: SqlRunner, workflow: string): Promise<string[] | null> => {
  const [found] = await connection.run<{ tags: string }>(TAGS, { workflow })
  return found === undefined ? null : (JSON.parse(found.tags) as string[])
}

const VERSIONS = statement(
  "workflows_versions",
  `${VERSION_COLUMNS}
   WHERE w.name = :name AND v.version < :before::int ORDER BY v.version DESC LIMIT :limit::int`,
)

const LATEST = 2_147_483_647

const listVersions = (
  connection: SqlRunner,
  { name, before = LATEST, limit }: { name: string; before?: number; limit: number },
): Promise<VersionRow[]> => connection.run<VersionRow>(VERSIONS, { name, before: Math.min(before, LATEST), limit })
