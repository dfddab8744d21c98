// Builds claims from claimed rows: the row, its run, and the results of the nodes that it reads, each read once.

import type { AttemptId } from "../../../core/model/ids.ts"
import type { Json } from "../../../core/values/json.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import { enclosingPath, taskKey } from "../../../core/model/task-path.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { fromJson, outputOf } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Claim, ClaimedRun, JobClaim, TaskClaim } from "../../contract/store.ts"
import type { Candidate } from "./candidates.ts"
import { type JobOfClaim, readJobClaims } from "./job-claim.ts"
import type { Result } from "../cache/results.ts"
import type { RunInfo } from "../cache/run-info.ts"
import type { Tx } from "../tx.ts"

export interface ClaimedRow extends Candidate {
  attemptId: AttemptId
}

const CHILDREN = "SELECT children_total FROM tasks WHERE id = ?"

const RESULT = "SELECT status, output, output_key, output_bytes FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

const ITEM = "SELECT item FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

const NO_READS: TaskClaim["reads"] = new Map()

/** Returns the claims of rows of tasks and jobs, in the order of the rows. */
export const toClaims = (tx: Tx, rows: readonly ClaimedRow[]): Claim[] => {
  const tasks = new TaskClaims(tx)
  const jobOf = readJobClaims(
    tx,
    rows.filter(({ runSeq }) => isJobRow(runSeq)).map(({ rowId }) => rowId),
  )
  return rows.map((row) => (isJobRow(row.runSeq) ? toJobClaim(row, jobOf(row.rowId)) : tasks.build(row)))
}

export const toTaskClaims = (tx: Tx, rows: readonly ClaimedRow[]): TaskClaim[] => {
  const tasks = new TaskClaims(tx)
  return rows.map((row) => tasks.build(row))
}

/** Builds claims of tasks, and reads data that several rows share once. */
class TaskClaims {
  readonly #tx: Tx
  readonly #runs = new Map<number, ClaimedRun>()
  readonly #totals = new Map<number, number | null>()
  readonly #items = new Map<string, Json>()

  constructor(tx: Tx) {
    this.#tx = tx
  }

  build(row: ClaimedRow): TaskClaim {
    const info = this.#tx.runs.get(row.runSeq)
    const workflow = this.#tx.workflows.get(info.versionId)
    return {
      row: row.rowId,
      attemptId: row.attemptId,
      runSeq: row.runSeq,
      runId: info.id,
      workflowId: info.workflowId,
      versionId: info.versionId,
      node: row.node,
      path: row.path,
      kind: row.kind,
      attempt: row.attempt,
      failures: row.failures,
      losses: row.losses,
      priority: row.priority,
      item: fromJson(row.item),
      parentItem: this.#parentItemOf(row, workflow),
      instanceCount: this.#countOf(row, workflow),
      childrenCreated: row.childrenCreated,
      childrenPending: row.childrenPending,
      childrenFailed: row.childrenFailed,
      wait: row.wait,
      upstream: row.upstream,
      reads: this.#readsOf(row, workflow),
      run: this.#runOf(row, info),
    }
  }

  #runOf({ runSeq, run: state }: ClaimedRow, info: RunInfo): ClaimedRun {
    const cached = this.#runs.get(runSeq)
    if (cached !== undefined) return cached
    const { workflow, params, trigger, cause, priority, logicalDate, createdAt, rootRunId, depth, workingDir, timezone } = info
    const { status, cancelling, error } = state
    const ofRun = {
      workflow,
      params,
      trigger,
      cause,
      priority,
      logicalDate,
      createdAt,
      private: info.private,
      rootRunId,
      depth,
    }
    const run: ClaimedRun = { ...ofRun, workingDir, timezone, status, cancelling, error }
    this.#runs.set(runSeq, run)
    return run
  }

  #countOf({ kind, node, parent, childrenTotal }: ClaimedRow, workflow: CompiledWorkflow): number | null {
    if (kind !== "task") return childrenTotal
    return parent === null || workflow.nodes[node]!.fan === undefined ? null : this.#siblingCount(parent)
  }

  #siblingCount(parent: number): number | null {
    const cached = this.#totals.get(parent)
    if (cached !== undefined) return cached
    const total = this.#tx.db.get<[number | null]>(CHILDREN, parent)?.[0] ?? null
    this.#totals.set(parent, total)
    return total
  }

  /**
   * Returns the results that a row reads. A node in the same group has the same path, without the index of an instance; a node further
   * out has a prefix of it.
   */
  #readsOf({ node, runSeq, path }: ClaimedRow, workflow: CompiledWorkflow): TaskClaim["reads"] {
    const { reads } = workflow.nodes[node]!
    if (reads.length === 0) return NO_READS
    const found: TaskClaim["reads"] = new Map()
    for (const upstream of reads) {
      const result = this.#resultOf(runSeq, upstream, enclosingPath(workflow, upstream, path))
      if (result !== null) found.set(upstream, result)
    }
    return found
  }

  #resultOf(runSeq: number, node: number, path: string): Result | null {
    const { results, db } = this.#tx
    const cached = results.get(runSeq, node, path)
    if (cached !== undefined) return cached
    const found = db.get<[TaskStatus, string | null, string | null, number | null]>(RESULT, runSeq, node, path)
    if (found === undefined) return null
    const result = { status: found[0], output: outputOf(found[1], found[2], found[3]) }
    results.set(runSeq, node, path, result)
    return result
  }

  /** Returns the item of the group whose item the row's expressions read. */
  #parentItemOf({ runSeq, path, node }: ClaimedRow, workflow: CompiledWorkflow): Json {
    const { parent } = workflow.nodes[node]!
    if (parent === undefined) return null
    const parentPath = enclosingPath(workflow, node, path)
    const key = `${runSeq}/${taskKey(parent, parentPath)}`
    const cached = this.#items.get(key)
    if (cached !== undefined) return cached
    const item = fromJson(this.#tx.db.get<[string | null]>(ITEM, runSeq, parent, parentPath)?.[0] ?? null)
    this.#items.set(key, item)
    return item
  }
}

const toJobClaim = (
  { rowId: row, attemptId, attempt, priority, failures, losses }: ClaimedRow,
  { job, createdAt }: JobOfClaim,
): JobClaim => ({ kind: "job", row, attemptId, attempt, priority, failures, losses, job, createdAt })
