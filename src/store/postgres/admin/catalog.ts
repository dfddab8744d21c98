// Deployed workflows and their versions as people see them. A list reads the workflows' own rows and, for each of its page, the
// newest runs by their index: never the history.

import type { RunId } from "../../../core/model/ids.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import type { Catalog, VersionRow, WorkflowRow } from "../../contract/catalog.ts"
import type { Access } from "../tx.ts"
import { anyParam } from "../connection/array-params.ts"
import { NEWEST_OF } from "../runs/run-reads.ts"
import { activeRunsOf, dueSchedules, fireTicks, listSchedules, moveSchedules, nextTickMs, schedulesAhead } from "./schedules.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"
import type { Workflows } from "../cache/workflows.ts"
import { bundlesInUse, removeWorkflow, setWorkflowPaused } from "./workflows.ts"

export const catalog = ({ read, writeAndNotify, clock, workflows }: Access): Catalog => ({
  listWorkflows: async (query) => withCompiled(workflows, await read((session) => listWorkflows(session, query))),
  getWorkflow: async (name) => {
    const [found] = await read((session) => session.run<Columns>(GET, { name }))
    return found === undefined ? null : { ...found, compiled: await workflows.compiled(found.versionId) }
  },
  listVersions: (query) => read((session) => listVersions(session, query)),
  bundlesInUse: (hashes) => read((session) => bundlesInUse(session, hashes)),
  removeWorkflow: (name) => writeAndNotify((tx) => removeWorkflow(tx, name)),
  setWorkflowPaused: (input) => writeAndNotify((tx) => setWorkflowPaused(tx, input)),
  listSchedules: (query) => read((session) => listSchedules(session, query)),
  currentTime: () => read((session) => currentTime(session, clock.now())),
  dueSchedules: (limit) => read((session) => dueSchedules(session, clock.now(), limit)),
  nextTickMs: () => read((session) => nextTickMs(session, clock.now())),
  fireTicks: async (ticks) => {
    await workflows.load(ticks.flatMap(({ run }) => run?.versionId ?? []))
    return writeAndNotify((tx) => fireTicks(tx, ticks))
  },
  schedulesAhead: () => read((session) => schedulesAhead(session, clock.now())),
  moveSchedules: (moves) => writeAndNotify((tx) => moveSchedules(tx, moves)),
  activeRunsOf: (scheduleId) => read((session) => activeRunsOf(session, scheduleId)),
})

const CURRENT_TIME = statement(
  "current_time",
  "SELECT floor(extract(epoch FROM COALESCE(:now::timestamptz, now())) * 1000)::float8 AS ms",
)

const currentTime = async (session: SqlRunner, now: string | null): Promise<number> =>
  (await session.run<{ ms: number }>(CURRENT_TIME, { now }))[0]!.ms

const COLUMNS = `
SELECT w.id, w.name, v.version, v.id AS "versionId", v.hash, v.source, w.paused, w.created_at AS "createdAt",
  w.updated_at AS "updatedAt"
FROM workflows w JOIN versions v ON v.id = w.deployed_version`

type Columns = Omit<WorkflowRow, "compiled">

type Listed = Omit<Awaited<ReturnType<Catalog["listWorkflows"]>>[number], "workflow"> & { workflow: Columns }

const withCompiled = async (workflows: Workflows, listed: readonly Listed[]): ReturnType<Catalog["listWorkflows"]> => {
  const whole: Awaited<ReturnType<Catalog["listWorkflows"]>> = []
  for (const { workflow, ...rest } of listed)
    whole.push({ workflow: { ...workflow, compiled: await workflows.compiled(workflow.versionId) }, ...rest })
  return whole
}

const LIST = statement(
  "workflows_list",
  `${COLUMNS}
   WHERE w.name > :after AND (:search::text IS NULL OR strpos(lower(w.name), lower(:search)) > 0)
     AND (:tag::text IS NULL OR w.tags::jsonb ? :tag)
   ORDER BY w.name LIMIT :limit::int`,
)

const LAST_RUNS = statement(
  "workflows_last_runs",
  `SELECT w.id AS workflow, r.id, r.status, r.created_at AS "createdAt", r.started_at AS "startedAt", r.finished_at AS "finishedAt"
   FROM unnest(:ids::bigint[]) AS w (id) CROSS JOIN LATERAL (
     SELECT * FROM runs r WHERE r.workflow_id = w.id ${NEWEST_OF} LIMIT :runs::int
   ) r ORDER BY r.created_at DESC, r.id DESC`,
)

const NEXT_AT = statement(
  "workflows_next_at",
  "SELECT workflow_id, min(next_at) AS next FROM schedules WHERE workflow_id = ANY (:ids::bigint[]) AND active GROUP BY workflow_id",
)

interface LastRun {
  workflow: number
  id: RunId
  status: RunStatus
  createdAt: string
  startedAt: string | null
  finishedAt: string | null
}

const lastRunOf = ({ id, status, createdAt, startedAt, finishedAt }: LastRun): Omit<LastRun, "workflow"> => ({
  id,
  status,
  createdAt,
  startedAt,
  finishedAt,
})

const listWorkflows = async (
  session: SqlRunner,
  query: { search?: string; tag?: string; after?: string; limit: number; runs: number },
): Promise<Listed[]> => {
  const { after = "", search = null, tag = null, limit } = query
  const rows = await session.run<Columns>(LIST, { after, search, tag, limit })
  const ids = anyParam(rows.map(({ id }) => id))
  const lastRuns = session.run<LastRun>(LAST_RUNS, { ids, runs: query.runs })
  const nextAt = session.run<{ workflow_id: number; next: string | null }>(NEXT_AT, { ids })
  const runs = Map.groupBy(await lastRuns, ({ workflow }) => workflow)
  const next = new Map((await nextAt).map((row) => [row.workflow_id, row.next]))
  return rows.map((workflow) => ({
    workflow,
    lastRuns: runs.get(workflow.id)?.map(lastRunOf) ?? [],
    nextAt: next.get(workflow.id) ?? null,
  }))
}

const GET = statement("workflows_get", `${COLUMNS} WHERE w.name = :name`)

const VERSIONS = statement(
  "workflows_versions",
  `SELECT v.version, v.id AS "versionId", v.hash, v.source, v.created_at AS "createdAt"
   FROM workflows w JOIN versions v ON v.workflow_id = w.id
   WHERE w.name = :name AND v.version < :before::int ORDER BY v.version DESC LIMIT :limit::int`,
)

const LATEST = 2_147_483_647

const listVersions = (
  session: SqlRunner,
  { name, before = LATEST, limit }: { name: string; before?: number; limit: number },
): Promise<VersionRow[]> => session.run<VersionRow>(VERSIONS, { name, before: Math.min(before, LATEST), limit })
