// Reads deployed workflows and their versions. A list reads the rows of workflows and, for each, the newest runs by an index; its
// cost does not depend on the history.

import type { Catalog, VersionRow, WorkflowRow } from "../../contract/catalog.ts"
import { LAST_RUN_COLUMNS, VERSION_COLUMNS, WORKFLOW_COLUMNS } from "../../shared/workflow-rows.ts"
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
import type { Access, StoreContext } from "../tx.ts"
import { allowed, allowedText } from "./allowed.ts"
import { bundlesInUse, removeWorkflow, setWorkflowPaused } from "./workflows.ts"

export const catalog = ({ read, write }: Access): Catalog => ({
  listWorkflows: (query) => read((s) => listWorkflows(s, query)),
  getWorkflow: (name) => read((s) => getWorkflow(s, name)),
  getTags: (workflow) => read((s) => getTags(s, workflow)),
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
  lastTickRun: (schedule) => read((s) => lastTickRun(s, schedule)),
  listSkippedTicks: (schedule, limit) => read((s) => listSkippedTicks(s, schedule, limit)),
})

type Columns = Omit<WorkflowRow, "compiled" | "paused"> & { paused: number }

const workflowOf = (context: StoreContext, columns: Columns): WorkflowRow => ({
  ...columns,
  paused: columns.paused === 1,
  compiled: context.workflows.get(columns.versionId),
})

const LIST = `${WORKFLOW_COLUMNS}
WHERE w.name > ?1 AND (?2 IS NULL OR instr(lower(w.name), lower(?2)) > 0)
  AND (?3 IS NULL OR EXISTS (SELECT 1 FROM json_each(w.tags) WHERE value = ?3)) AND ${allowed("?5")}
ORDER BY w.name LIMIT ?4 + 0`

const LAST_RUNS = `
SELECT ${LAST_RUN_COLUMNS} FROM runs r INDEXED BY runs_of_workflow
WHERE r.workflow_id = ? ORDER BY r.created_at DESC, r.id DESC LIMIT ? + 0`

const NEXT_AT = "SELECT min(next_at) FROM schedules WHERE workflow_id = ? AND active = 1"

const listWorkflows = (
  context: StoreContext,
  query: Parameters<Catalog["listWorkflows"]>[0],
): Awaited<ReturnType<Catalog["listWorkflows"]>> => {
  const { after = "", search = null, tag = null, limit, runs } = query
  return context.db.list<Columns>(LIST, after, search, tag, limit, allowedText(query)).map((columns) => ({
    workflow: workflowOf(context, columns),
    lastRuns: context.db.list(LAST_RUNS, columns.id, runs),
    nextAt: context.db.get<[string | null]>(NEXT_AT, columns.id)![0],
  }))
}

const GET = `${WORKFLOW_COLUMNS} WHERE w.name = ?`

const getWorkflow = (context: StoreContext, name: string): WorkflowRow | null => {
  const found = context.db.find<Columns>(GET, name)
  return found === undefined ? null : workflowOf(context, found)
}

const TAGS = "SELECT tags FROM workflows WHERE name = ?"

const getTags = ({ db }: StoreContext, workflow: string): string[] | null => {
  const found = db.get<[string]>(TAGS, workflow)
  return found === undefined ? null : (JSON.parse(found[0]) as string[])
}

const VERSIONS = `${VERSION_COLUMNS} WHERE w.name = ? AND v.version < ? ORDER BY v.version DESC LIMIT ? + 0`

const listVersions = (
  context: StoreContext,
  { name, before = Number.MAX_SAFE_INTEGER, limit }: { name: string; before?: number; limit: number },
): VersionRow[] => context.db.list<VersionRow>(VERSIONS, name, before, limit)
