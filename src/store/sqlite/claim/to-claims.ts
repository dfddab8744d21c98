// Builds claims from claimed rows: the row, its run, and the results of the nodes that it reads, each read once.

import type { AttemptId } from "../../../core/model/ids.ts"
import type { Json } from "../../../core/model/json.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import { enclosingPath, taskKey } from "../../../core/model/task-path.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { fromJson, outputOf } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Claim, ClaimedRun, JobClaim, TaskClaim } from "../../contract/store.ts"
import type { Candidate } from "./candidates.ts"
import { readJobClaim } from "./job-claim.ts"
import type { Result } from "../cache/results.ts"
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
  const toTaskClaim = taskClaims(tx)
  return rows.map((row) => (isJobRow(row.runSeq) ? toJobClaim(tx, row) : toTaskClaim(row)))
}

export const toTaskClaims = (tx: Tx, rows: readonly ClaimedRow[]): TaskClaim[] => rows.map(taskClaims(tx))

/** Returns a function that builds claims of tasks and reads data that several rows share once. */
const taskClaims = (tx: Tx): ((row: ClaimedRow) => TaskClaim) => {
  const runs = new Map<number, ClaimedRun>()
  const totals = new Map<number, number | null>()

  const runOf = (row: ClaimedRow): ClaimedRun => {
    let run = runs.get(row.runSeq)
    if (run === undefined) {
      const info = tx.runs.get(row.runSeq)
      const { workflow, params, trigger, priority, logicalDate, createdAt, workingDir, timezone } = info
      const { status, cancelling, error } = row.run
      run = {
        workflow,
        params,
        trigger,
        priority,
        logicalDate,
        createdAt,
        private: info.private,
        rootRunId: info.rootRunId,
        depth: info.depth,
        workingDir,
        timezone,
        status,
        cancelling,
        error,
      }
      runs.set(row.runSeq, run)
    }
    return run
  }

  const siblingCount = (parent: number): number | null => {
    if (!totals.has(parent)) totals.set(parent, tx.db.get<[number | null]>(CHILDREN, parent)?.[0] ?? null)
    return totals.get(parent)!
  }

  const countOf = ({ kind, node, parent, childrenTotal }: ClaimedRow, workflow: CompiledWorkflow): number | null => {
    if (kind !== "task") return childrenTotal
    return parent === null || workflow.nodes[node]!.fan === undefined ? null : siblingCount(parent)
  }

  const resultOf = (runSeq: number, node: number, path: string): Result | null => {
    const cached = tx.results.get(runSeq, node, path)
    if (cached !== undefined) return cached
    const found = tx.db.get<[TaskStatus, string | null, string | null, number | null]>(RESULT, runSeq, node, path)
    if (found === undefined) return null
    const result = { status: found[0], output: outputOf(found[1], found[2], found[3]) }
    tx.results.set(runSeq, node, path, result)
    return result
  }

  /** A node in the same group has the same path, without the index of an instance; a node further out has a prefix of it. */
  const readsOf = (row: ClaimedRow, workflow: CompiledWorkflow): TaskClaim["reads"] => {
    const { reads } = workflow.nodes[row.node]!
    if (reads.length === 0) return NO_READS
    const found: TaskClaim["reads"] = new Map()
    for (const node of reads) {
      const result = resultOf(row.runSeq, node, enclosingPath(workflow, node, row.path))
      if (result !== null) found.set(node, result)
    }
    return found
  }

  const items = new Map<string, Json>()

  const parentItemOf = ({ runSeq, path, node }: ClaimedRow, workflow: CompiledWorkflow): Json => {
    const { parent } = workflow.nodes[node]!
    if (parent === undefined) return null
    const at = enclosingPath(workflow, node, path)
    const key = `${runSeq}/${taskKey(parent, at)}`
    let item = items.get(key)
    if (item === undefined) items.set(key, (item = fromJson(tx.db.get<[string | null]>(ITEM, runSeq, parent, at)?.[0] ?? null)))
    return item
  }

  return (row) => {
    const info = tx.runs.get(row.runSeq)
    const workflow = tx.versions.get(info.versionId)
    return {
      row: row.row,
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
      parentItem: parentItemOf(row, workflow),
      count: countOf(row, workflow),
      childrenCreated: row.childrenCreated,
      childrenPending: row.childrenPending,
      childrenFailed: row.childrenFailed,
      waitingOn: row.waitingOn,
      upstream: row.upstream,
      reads: readsOf(row, workflow),
      run: runOf(row),
    }
  }
}

const toJobClaim = (tx: Tx, { row, attemptId, attempt, priority }: ClaimedRow): JobClaim => ({
  kind: "job",
  row,
  attemptId,
  attempt,
  priority,
  ...readJobClaim(tx, row)!,
})
