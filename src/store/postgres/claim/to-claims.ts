// What was taken, with all that its judgement or launch needs: the states of the rows that its expressions read, and its run.
// One query each for the whole batch, sent together; ends that this store itself has just written it knows.

import type { Output } from "../../../core/model/change.ts"
import type { Json, JsonObject } from "../../../core/model/json.ts"
import { enclosingPath } from "../../../core/model/task-path.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import type { WaitingOn } from "../../../core/model/waiting-on.ts"
import { fromJson, outputOf } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Claim, ClaimedRun, TaskClaim } from "../../contract/store.ts"
import { anyParam, arrayParam, textArrayParam } from "../connection/array-params.ts"
import type { ClaimedRow } from "./claimed-row.ts"
import { claimJobs } from "../advance/job-changes.ts"
import { type FinishedTask, type Cache, taskKey, type RunInfo } from "../cache/cache.ts"
import { pipelined, type SqlRunner, statement } from "../connection/connection.ts"
import type { Workflows } from "../admin/workflows.ts"

const NEEDS = statement(
  "needs",
  `SELECT n.place, t.status, t.output, t.output_key, t.output_bytes
   FROM unnest($1::int[], $2::bigint[], $3::int[], $4::text[]) AS n (place, run_seq, node, path)
   JOIN tasks t ON t.run_seq = n.run_seq AND t.node = n.node AND t.path = n.path`,
)

const RUNS = statement(
  "run_facts",
  `SELECT r.seq, r.id, w.name, r.version_id, r.params, r.trigger, r.priority, r.logical_date, r.created_at, r.private, r.working_dir, r.timezone,
     r.root_run_id, r.depth
   FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE r.seq = ANY ($1::bigint[])`,
)

interface RunRow {
  seq: number
  id: RunInfo["id"]
  name: string
  version_id: number
  params: string
  trigger: string
  priority: number
  logical_date: string | null
  created_at: string
  private: boolean
  working_dir: string | null
  timezone: string | null
  root_run_id: RunInfo["rootRunId"]
  depth: number
}

export const loadRuns = async (tx: SqlRunner, memory: Cache, seqs: Iterable<number>): Promise<Map<number, RunInfo>> => {
  const wanted = new Set(seqs)
  const found = new Map<number, RunInfo>()
  for (const seq of wanted) {
    const known = memory.runs.get(seq)
    if (known !== undefined) found.set(seq, known)
  }
  const missing = [...wanted].filter((seq) => !found.has(seq))
  if (missing.length === 0) return found
  for (const row of await tx.run<RunRow>(RUNS, [anyParam(missing)])) {
    const facts: RunInfo = {
      id: row.id,
      workflow: row.name,
      versionId: row.version_id,
      params: JSON.parse(row.params) as JsonObject,
      trigger: row.trigger,
      priority: row.priority,
      logicalDate: row.logical_date,
      createdAt: row.created_at,
      private: row.private,
      workingDir: row.working_dir,
      timezone: row.timezone,
      rootRunId: row.root_run_id,
      depth: row.depth,
    }
    found.set(row.seq, facts)
    memory.runs.set(row.seq, facts)
  }
  return found
}

type State = { status: TaskStatus; output: Output | null }
type NeedRow = { place: number; status: TaskStatus } & {
  output: string | null
  output_key: string | null
  output_bytes: number | null
}

/** What the claims of one transaction are made from. */
export interface ClaimSource {
  memory: Cache
  workflows: Workflows
  /** Ends of this transaction. */
  fresh: ReadonlyMap<string, FinishedTask>
  now: string | null
}

/** Returns the claims of rows of tasks and jobs, in the order of the rows. Sends its statements at once. */
export const toClaims = async (tx: SqlRunner, source: ClaimSource, all: readonly ClaimedRow[]): Promise<Claim[]> => {
  if (all.length === 0) return []
  const jobs = pipelined(claimJobs(tx, source.now, all))
  const tasks = pipelined(
    toTaskClaims(
      tx,
      source,
      all.filter((row) => !isJobRow(row.run_seq)),
    ),
  )
  const claims = new Map<number, Claim>(await jobs)
  for (const claim of await tasks) claims.set(claim.row, claim)
  return all.map((row) => claims.get(row.id)!)
}

/** Returns the claims of rows of tasks. Sends its statements at once. */
export const toTaskClaims = async (
  tx: SqlRunner,
  { memory, workflows, fresh }: ClaimSource,
  taken: readonly ClaimedRow[],
): Promise<TaskClaim[]> => {
  if (taken.length === 0) return []
  const places = new Map<string, number>()
  const wanted: { runSeq: number; node: number; path: string }[] = []
  const needsOf = taken.map((row) => {
    const workflow = workflows.now(row.version_id)
    // Rows beside it share its path, but for the index of an instance; those further out have a beginning of it.
    return workflow.nodes[row.node]!.reads.map((node): [number, number | State] => {
      const path = enclosingPath(workflow, node, row.path)
      const place = taskKey(row.run_seq, row.generation, node, path)
      const ended = fresh.get(place) ?? memory.finished.get(place)
      if (ended !== undefined) return [node, { status: ended.status, output: outputOf(...ended.output) }]
      let index = places.get(place)
      if (index === undefined) {
        places.set(place, (index = wanted.length))
        wanted.push({ runSeq: row.run_seq, node, path })
      }
      return [node, index]
    })
  })
  const runs = pipelined(
    loadRuns(
      tx,
      memory,
      taken.map((row) => row.run_seq),
    ),
  )
  const states = wanted.length === 0 ? [] : pipelined(readStates(tx, wanted))
  const items = pipelined(readParents(tx, workflows, taken))
  const counts = pipelined(readCounts(tx, taken))
  const facts = await runs
  const found = await states
  const parentItems = await items
  const totals = await counts
  const seen = new Map<number, ClaimedRun>()
  return taken.map((row, i) => {
    const needs = new Map<number, State>()
    for (const [node, known] of needsOf[i]!) {
      const state = typeof known === "number" ? found[known] : known
      if (state !== undefined) needs.set(node, state)
    }
    const count = row.kind === "task" ? (totals.get(row.parent_id) ?? null) : row.children_total
    let run = seen.get(row.run_seq)
    if (run === undefined || run.cancelling !== row.cancelling || run.status !== row.run_status)
      seen.set(row.run_seq, (run = runOf(row, facts.get(row.run_seq)!)))
    return toTaskClaim(row, { run, reads: needs, parentItem: parentItems.get(row.id) ?? null, count })
  })
}

const readStates = async (
  tx: SqlRunner,
  wanted: readonly { runSeq: number; node: number; path: string }[],
): Promise<(State | undefined)[]> => {
  const rows = await tx.run<NeedRow>(NEEDS, [
    arrayParam(wanted.map((_, place) => place)),
    arrayParam(wanted.map(({ runSeq }) => runSeq)),
    arrayParam(wanted.map(({ node }) => node)),
    textArrayParam(wanted.map(({ path }) => path)),
  ])
  const states: (State | undefined)[] = Array.from({ length: wanted.length })
  for (const row of rows)
    states[row.place] = { status: row.status, output: outputOf(row.output, row.output_key, row.output_bytes) }
  return states
}

const PARENTS = statement(
  "parent_items",
  `SELECT c.id, t.item FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[]) AS c (id, run_seq, node, path)
   JOIN tasks t ON t.run_seq = c.run_seq AND t.node = c.node AND t.path = c.path`,
)

/** By row, the item of the group whose item its expressions read. */
const readParents = async (tx: SqlRunner, workflows: Workflows, taken: readonly ClaimedRow[]): Promise<Map<number, Json>> => {
  const inside = taken.flatMap(({ id, run_seq, version_id, node, path }) => {
    const workflow = workflows.now(version_id)
    const { parent } = workflow.nodes[node]!
    return parent === undefined ? [] : [{ id, run_seq, parent, path: enclosingPath(workflow, node, path) }]
  })
  if (inside.length === 0) return new Map()
  const rows = await tx.run<{ id: number; item: string | null }>(PARENTS, [
    arrayParam(inside.map(({ id }) => id)),
    arrayParam(inside.map(({ run_seq }) => run_seq)),
    arrayParam(inside.map(({ parent }) => parent)),
    textArrayParam(inside.map(({ path }) => path)),
  ])
  return new Map(rows.map(({ id, item }) => [id, fromJson(item)]))
}

const COUNTS = statement("fan_counts", "SELECT id, children_total FROM tasks WHERE id = ANY ($1::bigint[]) AND kind = 'fan'")

/** By container, how many instances there are of a fan-out. */
const readCounts = async (tx: SqlRunner, taken: readonly ClaimedRow[]): Promise<Map<number | null, number>> => {
  const parents = new Set(taken.flatMap(({ kind, parent_id }) => (kind === "task" && parent_id !== null ? parent_id : [])))
  if (parents.size === 0) return new Map()
  const rows = await tx.run<{ id: number; children_total: number }>(COUNTS, [anyParam(parents)])
  return new Map(rows.map(({ id, children_total }) => [id, children_total]))
}

const toTaskClaim = (row: ClaimedRow, found: Pick<TaskClaim, "run" | "reads" | "parentItem" | "count">): TaskClaim => ({
  row: row.id,
  attemptId: row.new_id,
  runSeq: row.run_seq,
  runId: row.run_id,
  workflowId: row.workflow_id,
  versionId: row.version_id,
  node: row.node,
  path: row.path,
  kind: row.kind,
  attempt: row.attempt,
  failures: row.failures ?? 0,
  losses: row.losses ?? 0,
  priority: row.priority,
  item: fromJson(row.item),
  childrenCreated: row.children_created ?? 0,
  childrenPending: row.kind === "task" ? null : row.children_pending,
  childrenFailed: row.children_failed ?? 0,
  waitingOn: row.waiting_on ? waitsOf(row.waiting_on, row) : null,
  upstream: { failed: row.upstream_failed ?? 0, unmet: row.upstream_unmet ?? 0, waived: row.upstream_waived ?? 0 },
  ...found,
})

const runOf = (row: ClaimedRow, run: RunInfo): ClaimedRun => ({
  workflow: run.workflow,
  params: run.params,
  trigger: run.trigger,
  priority: run.priority,
  logicalDate: run.logicalDate,
  createdAt: run.createdAt,
  private: run.private,
  rootRunId: run.rootRunId,
  depth: run.depth,
  workingDir: run.workingDir,
  timezone: run.timezone,
  cancelling: row.cancelling,
  status: row.run_status,
  error: row.run_error,
})

const waitsOf = (waits: string, { elapsed, cancel_requested }: ClaimedRow): TaskClaim["waitingOn"] => ({
  for: JSON.parse(waits) as WaitingOn,
  elapsedMs: Math.max(0, elapsed ?? 0),
  ...(cancel_requested === true && { cancelRequested: cancel_requested }),
})
