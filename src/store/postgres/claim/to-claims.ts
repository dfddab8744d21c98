// Turns claimed rows into claims, which carry everything that the engine needs to gate or launch them: the results that their
// expressions read, and their run. One query per kind for the whole batch, all sent together; recent results come from the cache.

import type { Output } from "../../../core/model/change.ts"
import type { Json } from "../../../core/values/json.ts"
import { enclosingPath } from "../../../core/model/task-path.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import type { WaitingOn } from "../../../core/model/waiting-on.ts"
import { fromJson, outputOf } from "../../shared/codec.ts"
import { claimedJob, isJobRow } from "../../shared/job-rows.ts"
import type { Claim, ClaimedRun, JobClaim, TaskClaim } from "../../contract/store.ts"
import { type FinishedTask, type RunInfo, resultKey } from "../cache/cache.ts"
import { pipelined, statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import { readJobClaims } from "./job-claim.ts"
import type { ClaimedRow } from "./claimed-row.ts"
import { loadRuns } from "../cache/run-info.ts"

/** Results of the tasks that the transaction finished, by `resultKey`. */
export type Results = ReadonlyMap<string, FinishedTask>

/** Returns the claims of tasks and jobs, in the order of the rows. Sends its statements before it returns. */
export const toClaims = async (tx: Tx, rows: readonly ClaimedRow[], results: Results): Promise<Claim[]> => {
  if (rows.length === 0) return []
  const jobs = pipelined(
    toJobClaims(
      tx,
      rows.filter((row) => isJobRow(row.run_seq)),
    ),
  )
  const tasks = pipelined(
    toTaskClaims(
      tx,
      rows.filter((row) => !isJobRow(row.run_seq)),
      results,
    ),
  )
  const claims = new Map<number, Claim>([...(await jobs), ...(await tasks)].map((claim) => [claim.row, claim]))
  return rows.map((row) => claims.get(row.id)!)
}

const toJobClaims = async (tx: Tx, rows: readonly ClaimedRow[]): Promise<JobClaim[]> => {
  if (rows.length === 0) return []
  const jobs = await readJobClaims(
    tx,
    rows.map(({ id }) => id),
  )
  return rows.map((row) => {
    const columns = jobs.get(row.id)!
    return {
      kind: "job",
      row: row.id,
      attemptId: row.attempt_id,
      attempt: row.attempt,
      priority: row.priority,
      failures: row.failures ?? 0,
      losses: row.losses ?? 0,
      job: claimedJob(columns),
      createdAt: columns.created_at,
    }
  })
}

/** Returns the claims of tasks, in the order of the rows. Sends its statements before it returns. */
export const toTaskClaims = async (tx: Tx, rows: readonly ClaimedRow[], results: Results): Promise<TaskClaim[]> => {
  if (rows.length === 0) return []
  const reading = new UpstreamStates(tx, results)
  const reads = rows.map((row) => reading.request(row))
  const loading = {
    runs: pipelined(
      loadRuns(
        tx,
        rows.map((row) => row.run_seq),
      ),
    ),
    states: pipelined(reading.read()),
    parentItems: pipelined(readParentItems(tx, rows)),
    fanTotals: pipelined(readFanTotals(tx, rows)),
  }
  const runs = await loading.runs
  await loading.states
  const parentItems = await loading.parentItems
  const fanTotals = await loading.fanTotals
  const claimedRuns = new Map<number, ClaimedRun>()
  return rows.map((row, i) => {
    // Claims of one run share its object, unless its state changed between two claims of the transaction.
    let run = claimedRuns.get(row.run_seq)
    if (run === undefined || run.cancelling !== row.cancelling || run.status !== row.run_status)
      claimedRuns.set(row.run_seq, (run = claimedRun(row, runs.get(row.run_seq)!)))
    return toTaskClaim(row, {
      run,
      reads: reads[i]!(),
      parentItem: parentItems.get(row.id) ?? null,
      instanceCount: row.kind === "task" ? (fanTotals.get(row.parent_id) ?? null) : row.children_total,
    })
  })
}

interface State {
  status: TaskStatus
  output: Output | null
}

const READ_STATES = statement(
  "claim_read_states",
  `SELECT n.number, t.status, t.output, t.output_key, t.output_bytes
   FROM unnest(:numbers::int[], :runs::bigint[], :nodes::int[], :paths::text[]) AS n (number, run_seq, node, path)
   JOIN tasks t ON t.run_seq = n.run_seq AND t.node = n.node AND t.path = n.path`,
)

interface StateRow {
  number: number
  status: TaskStatus
  output: string | null
  output_key: string | null
  output_bytes: number | null
}

/** The states of the tasks that claimed rows read: from the cache, or read together. */
class UpstreamStates {
  readonly #tx: Tx
  readonly #results: Results
  readonly #numbers = new Map<string, number>()
  readonly #missing: { runSeq: number; node: number; path: string }[] = []
  readonly #states: (State | undefined)[] = []

  constructor(tx: Tx, results: Results) {
    this.#tx = tx
    this.#results = results
  }

  /** Returns a function that yields the states by node, after `read`. */
  request({ run_seq, generation, version_id, node, path }: ClaimedRow): () => Map<number, State> {
    const workflow = this.#tx.workflows.getLoaded(version_id)
    // Rows of the same group share the path; rows of enclosing groups have a prefix of it.
    const requested = workflow.nodes[node]!.reads.map((upstream) => ({
      upstream,
      found: this.#find(run_seq, generation, upstream, enclosingPath(workflow, upstream, path)),
    }))
    return () => {
      const states = new Map<number, State>()
      for (const { upstream, found } of requested) {
        const state = typeof found === "number" ? this.#states[found] : found
        if (state !== undefined) states.set(upstream, state)
      }
      return states
    }
  }

  /** Returns a cached state, or the number under which it will be read. */
  #find(runSeq: number, generation: number, node: number, path: string): State | number {
    const key = resultKey(runSeq, generation, node, path)
    const cached = this.#results.get(key) ?? this.#tx.cache.finished.get(key)
    if (cached !== undefined) return { status: cached.status, output: outputOf(...cached.output) }
    const known = this.#numbers.get(key)
    if (known !== undefined) return known
    this.#numbers.set(key, this.#missing.length)
    return this.#missing.push({ runSeq, node, path }) - 1
  }

  async read(): Promise<void> {
    if (this.#missing.length === 0) return
    const rows = await this.#tx.run<StateRow>(READ_STATES, {
      numbers: this.#missing.map((_, number) => number),
      runs: this.#missing.map(({ runSeq }) => runSeq),
      nodes: this.#missing.map(({ node }) => node),
      paths: this.#missing.map(({ path }) => path),
    })
    for (const { number, status, output, output_key, output_bytes } of rows)
      this.#states[number] = { status, output: outputOf(output, output_key, output_bytes) }
  }
}

const READ_PARENT_ITEMS = statement(
  "claim_read_parent_items",
  `SELECT c.id, t.item FROM unnest(:rows::bigint[], :runs::bigint[], :nodes::int[], :paths::text[]) AS c (id, run_seq, node, path)
   JOIN tasks t ON t.run_seq = c.run_seq AND t.node = c.node AND t.path = c.path`,
)

/** Returns, by row, the item of the group whose item its expressions read. */
const readParentItems = async (tx: Tx, rows: readonly ClaimedRow[]): Promise<Map<number, Json>> => {
  const inside = rows.flatMap(({ id, run_seq, version_id, node, path }) => {
    const workflow = tx.workflows.getLoaded(version_id)
    const { parent } = workflow.nodes[node]!
    return parent === undefined ? [] : [{ id, run_seq, parent, path: enclosingPath(workflow, node, path) }]
  })
  if (inside.length === 0) return new Map()
  const found = await tx.run<{ id: number; item: string | null }>(READ_PARENT_ITEMS, {
    rows: inside.map(({ id }) => id),
    runs: inside.map(({ run_seq }) => run_seq),
    nodes: inside.map(({ parent }) => parent),
    paths: inside.map(({ path }) => path),
  })
  return new Map(found.map(({ id, item }) => [id, fromJson(item)]))
}

const READ_FAN_TOTALS = statement(
  "claim_read_fan_totals",
  "SELECT id, children_total FROM tasks WHERE id = ANY (:containers::bigint[]) AND kind = 'fan'",
)

/** Returns the number of instances of each fan-out, by container. */
const readFanTotals = async (tx: Tx, rows: readonly ClaimedRow[]): Promise<Map<number | null, number>> => {
  const containers = new Set(rows.flatMap(({ kind, parent_id }) => (kind === "task" && parent_id !== null ? parent_id : [])))
  if (containers.size === 0) return new Map()
  const found = await tx.run<{ id: number; children_total: number }>(READ_FAN_TOTALS, { containers: [...containers] })
  return new Map(found.map(({ id, children_total }) => [id, children_total]))
}

const toTaskClaim = (
  row: ClaimedRow,
  loaded: Pick<TaskClaim, "run" | "reads" | "parentItem" | "instanceCount">,
): TaskClaim => ({
  row: row.id,
  attemptId: row.attempt_id,
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
  wait: row.waiting_on ? waitOf(row.waiting_on, row) : null,
  upstream: { failed: row.upstream_failed ?? 0, unmet: row.upstream_unmet ?? 0, waived: row.upstream_waived ?? 0 },
  ...loaded,
})

const claimedRun = ({ cancelling, run_status: status, run_error: error }: ClaimedRow, run: RunInfo): ClaimedRun => {
  const { id: _, versionId: __, ...info } = run
  return { ...info, cancelling, status, error }
}

const waitOf = (waitingOn: string, { elapsed, resumes, must_end }: ClaimedRow): TaskClaim["wait"] => ({
  on: JSON.parse(waitingOn) as WaitingOn,
  elapsedMs: Math.max(0, elapsed ?? 0),
  resumes: resumes ?? 0,
  ...(must_end === true && { mustEnd: must_end }),
})
