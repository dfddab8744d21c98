// Claims as they leave: the row, its run, and what the nodes that it needs have come to, read once per node and run.

import type { AttemptId } from "../../../core/model/ids.ts"
import type { Json } from "../../../core/model/json.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import { enclosingPath } from "../../../core/model/task-path.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { fromJson, outputOf, placeOf } from "../../shared/codec.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { Claim, ClaimedRun, JobClaim, TaskClaim } from "../../contract/store.ts"
import type { Candidate } from "./candidates.ts"
import { readJobClaim } from "../jobs/reads.ts"
import type { Result } from "../cache/results.ts"
import type { Tx } from "../connection/tx.ts"

export interface ClaimedRow extends Candidate {
  attemptId: AttemptId
}

const CHILDREN = "SELECT children_total FROM tasks WHERE id = ?"

const NEED = "SELECT status, output, output_key, output_bytes FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

const ITEM = "SELECT item FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

/** Returns the claims of rows of tasks and jobs, in the order of the rows. */
export const toClaims = (tx: Tx, taken: readonly ClaimedRow[]): Claim[] => {
  const toTaskClaim = taskClaims(tx)
  return taken.map((row) => (isJobRow(row.runSeq) ? toJobClaim(tx, row) : toTaskClaim(row)))
}

export const toTaskClaims = (tx: Tx, taken: readonly ClaimedRow[]): TaskClaim[] => taken.map(taskClaims(tx))

/** Returns a function that makes claims of tasks; what several rows share is read once. */
const taskClaims = (tx: Tx): ((row: ClaimedRow) => TaskClaim) => {
  const runs = new Map<number, ClaimedRun>()
  const totals = new Map<number, number | null>()

  const runOf = (row: ClaimedRow): ClaimedRun => {
    let run = runs.get(row.runSeq)
    if (run === undefined) {
      const fact = tx.runs.get(row.runSeq)
      const { workflow, params, trigger, priority, logicalDate, createdAt, workingDir, timezone } = fact
      const { status, cancelling, error } = row.run
      run = {
        workflow,
        params,
        trigger,
        priority,
        logicalDate,
        createdAt,
        private: fact.private,
        rootRunId: fact.rootRunId,
        depth: fact.depth,
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

  const siblings = (parent: number): number | null => {
    if (!totals.has(parent)) totals.set(parent, tx.db.get<[number | null]>(CHILDREN, parent)?.[0] ?? null)
    return totals.get(parent)!
  }

  const countOf = ({ kind, node, parent, childrenTotal }: ClaimedRow, workflow: CompiledWorkflow): number | null => {
    if (kind !== "task") return childrenTotal
    return parent === null || workflow.nodes[node]!.fan === undefined ? null : siblings(parent)
  }

  const needOf = (runSeq: number, node: number, path: string): Result | null => {
    const known = tx.results.get(runSeq, node, path)
    if (known !== undefined) return known
    const found = tx.db.get<[TaskStatus, string | null, string | null, number | null]>(NEED, runSeq, node, path)
    if (found === undefined) return null
    const need = { status: found[0], output: outputOf(found[1], found[2], found[3]) }
    tx.results.set(runSeq, node, path, need)
    return need
  }

  /** Rows beside it share its path, but for the index of an instance; those further out have a beginning of it. */
  const needsOf = (row: ClaimedRow, workflow: CompiledWorkflow): TaskClaim["reads"] => {
    const found: TaskClaim["reads"] = new Map()
    const { reads } = workflow.nodes[row.node]!
    if (reads.length === 0) return found
    for (const node of reads) {
      const need = needOf(row.runSeq, node, enclosingPath(workflow, node, row.path))
      if (need !== null) found.set(node, need)
    }
    return found
  }

  const items = new Map<string, Json>()

  const parentItemOf = ({ runSeq, path, node }: ClaimedRow, workflow: CompiledWorkflow): Json => {
    const { parent } = workflow.nodes[node]!
    if (parent === undefined) return null
    const at = enclosingPath(workflow, node, path)
    const place = placeOf(runSeq, parent, at)
    let item = items.get(place)
    if (item === undefined)
      items.set(place, (item = fromJson(tx.db.get<[string | null]>(ITEM, runSeq, parent, at)?.[0] ?? null)))
    return item
  }

  return (row) => {
    const fact = tx.runs.get(row.runSeq)
    const workflow = tx.versions.get(fact.versionId)
    return {
      row: row.row,
      attemptId: row.attemptId,
      runSeq: row.runSeq,
      runId: fact.id,
      workflowId: fact.workflowId,
      versionId: fact.versionId,
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
      reads: needsOf(row, workflow),
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
