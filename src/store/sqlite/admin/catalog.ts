// Reads deployed workflows and their versions. A list reads the rows of workflows and, for each, the newest runs by an index; its
// cost does not depend on the history.

import type { RunId } from "../../../core/model/ids.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import type { Catalog, VersionRow, WorkflowRow } from "../../contract/catalog.ts"
import { activeRunsOf, dueSchedules, fireTicks, listSchedules, moveSchedules, nextTickMs, schedulesAhead } from "./schedules.ts"
import type { Access, Session } from "../tx.ts"
import { bundlesInUse, removeWorkflow, setWorkflowPaused } from "./workflows.ts"

export const catalog = ({ read, write }: Access): Catalog => ({
  listWorkflows: (query) => read((s) => listWorkflows(s, query)),
  getWorkflow: (name) => read((s) => getWorkflow(s, name)),
  listVersions: (query) => read((s) => listVersions(s, query)),
  bundlesInUse: (hashes) => read(({ db }) => bundlesInUse(db, hashes)),
  removeWorkflow: (name) => write((tx) => removeWorkflow(tx, name)),
  setWorkflowPaused: (input) => write((tx) => setWorkflowPaused(tx, input)),
  listSchedules: (query) => read((s) => listSchedules(s, query)),
  currentTime: () => read((s) => s.clock.now()),
  dueSchedules: (limit) => read((s) => dueSchedules(s, limit)),
  nextTickMs: () => read(nextTickMs),
  fireTicks: (ticks) => write((tx) => fireTicks(tx, ticks)),
  schedulesAhead: () => read(schedulesAhead),
  moveSchedules: (moves) => write((tx) => moveSchedules(tx, moves)),
  activeRunsOf: (scheduleId) => read((s) => activeRunsOf(s, scheduleId)),
})

const COLUMNS = `
SELECT w.id, w.name, v.version, v.id AS version_id, v.hash, v.source, w.paused, w.created_at, w.updated_at
FROM workflows w JOIN versions v ON v.id = w.deployed_version`

type Columns = [number, string, number, number, string, string, number, string, string]

const workflowOf = (session: Session, c: Columns): WorkflowRow => ({
  id: c[0],
  name: c[1],
  version: c[2],
  versionId: c[3],
  hash: c[4],
  source: c[5],
  compiled: session.versions.get(c[3]) satisfies CompiledWorkflow,
  paused: c[6] === 1,
  createdAt: c[7],
  updatedAt: c[8],
})

const LIST = `${COLUMNS}
WHERE w.name > ?1 AND (?2 IS NULL OR instr(lower(w.name), lower(?2)) > 0)
  AND (?3 IS NULL OR EXISTS (SELECT 1 FROM json_each(w.tags) WHERE value = ?3))
ORDER BY w.name LIMIT ?4 + 0`

const LAST_RUNS = `
SELECT id, status, created_at, started_at, finished_at FROM runs INDEXED BY runs_of_workflow
WHERE workflow_id = ? ORDER BY created_at DESC, id DESC LIMIT ? + 0`

const NEXT_AT = "SELECT min(next_at) FROM schedules WHERE workflow_id = ? AND active = 1"

const listWorkflows = (
  session: Session,
  query: { search?: string; tag?: string; after?: string; limit: number; runs: number },
): Awaited<ReturnType<Catalog["listWorkflows"]>> =>
  session.db.all<Columns>(LIST, query.after ?? "", query.search ?? null, query.tag ?? null, query.limit).map((columns) => ({
    workflow: workflowOf(session, columns),
    lastRuns: session.db
      .all<[RunId, RunStatus, string, string | null, string | null]>(LAST_RUNS, columns[0], query.runs)
      .map(([id, status, createdAt, startedAt, finishedAt]) => ({ id, status, createdAt, startedAt, finishedAt })),
    nextAt: session.db.get<[string | null]>(NEXT_AT, columns[0])![0],
  }))

const GET = `${COLUMNS} WHERE w.name = ?`

const getWorkflow = (session: Session, name: string): WorkflowRow | null => {
  const found = session.db.get<Columns>(GET, name)
  return found === undefined ? null : workflowOf(session, found)
}

const VERSIONS = `
SELECT v.version, v.id, v.hash, v.source, v.created_at FROM versions v JOIN workflows w ON w.id = v.workflow_id
WHERE w.name = ? AND v.version < ? ORDER BY v.version DESC LIMIT ? + 0`

const listVersions = (
  session: Session,
  { name, before, limit }: { name: string; before?: number; limit: number },
): VersionRow[] =>
  session.db
    .all<[number, number, string, string, string]>(VERSIONS, name, before ?? Number.MAX_SAFE_INTEGER, limit)
    .map(([version, versionId, hash, source, createdAt]) => ({ version, versionId, hash, source, createdAt }))
