// Claims as they leave: the row, its run, and what the nodes that it needs have come to, read once per node and run.

import type { Output } from "../../core/change.ts"
import type { AttemptId } from "../../core/ids.ts"
import type { TaskStatus } from "../../core/status.ts"
import { fromJson, outputOf, placeOf, scopePath } from "../codec.ts"
import { JOBS, NO_RUN_FIELDS } from "../job-rows.ts"
import type { Claim } from "../store.ts"
import type { Candidate } from "./candidates.ts"
import { readJobClaim } from "./job-reads.ts"
import type { Tx } from "./tx.ts"

export interface Taken extends Candidate {
  attemptId: AttemptId
}

const CHILDREN = "SELECT children_total FROM tasks WHERE id = ?"

const NEED = "SELECT status, output, output_key, output_bytes FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

type Need = { status: TaskStatus; output: Output | null }

export const toClaims = (tx: Tx, taken: readonly Taken[]): Claim[] => {
  const runs = new Map<number, Claim["run"]>()
  const totals = new Map<number, number | null>()

  const runOf = (row: Taken): Claim["run"] => {
    let run = runs.get(row.runSeq)
    if (run === undefined) {
      const fact = tx.facts.get(row.runSeq)
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

  const needOf = (runSeq: number, node: number, path: string): Need | null => {
    const place = placeOf(runSeq, node, path)
    const known = tx.results.get(place)
    if (known !== undefined) return known
    const found = tx.db.get<[TaskStatus, string | null, string | null, number | null]>(NEED, runSeq, node, path)
    if (found === undefined) return null
    const need = { status: found[0], output: outputOf(found[1], found[2], found[3]) }
    tx.results.set(place, need)
    return need
  }

  const needsOf = (row: Taken, nodes: readonly number[]): Claim["needs"] => {
    const found: Claim["needs"] = new Map()
    if (nodes.length === 0) return found
    const path = scopePath(row)
    for (const node of nodes) {
      const need = needOf(row.runSeq, node, path)
      if (need !== null) found.set(node, need)
    }
    return found
  }

  return taken.map((row) => {
    if (row.runSeq === JOBS) return toJobClaim(tx, row)
    const fact = tx.facts.get(row.runSeq)
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
      count: row.parent === null ? row.childrenTotal : siblings(row.parent),
      expanded: row.expanded,
      childrenFailed: row.childrenFailed,
      upstream: row.upstream,
      needs: needsOf(row, tx.versions.get(fact.versionId).nodes[row.node]!.needs),
      run: runOf(row),
      job: null,
    }
  })
}

const toJobClaim = (tx: Tx, row: Taken): Claim => {
  const { job, createdAt } = readJobClaim(tx, row.row)!
  return {
    row: row.row,
    attemptId: row.attemptId,
    ...NO_RUN_FIELDS,
    kind: "task",
    attempt: row.attempt,
    failures: row.failures,
    losses: row.losses,
    priority: row.priority,
    item: null,
    count: null,
    expanded: 0,
    childrenFailed: 0,
    upstream: row.upstream,
    needs: new Map(),
    run: {
      workflow: "",
      params: {},
      trigger: "job",
      priority: row.priority,
      logicalDate: null,
      createdAt,
      private: false,
      workingDir: null,
      timezone: null,
      cancelling: null,
      status: "running",
      error: null,
    },
    job,
  }
}
