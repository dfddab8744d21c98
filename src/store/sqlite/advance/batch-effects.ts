// Effects of finished rows on other rows, collected over a batch and written once per affected row: upstream counters of the rows
// below, counters of the container above, counters of the run, slots of limits, dependents of jobs.

import { countedOutcome, countFinish, edgesOf, isAllowedFailure } from "../../../core/rules/changes/effects.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import type { SkipReason, FinalStatus } from "../../../core/model/status.ts"
import { isJobRow, jobStatus } from "../../shared/job-rows.ts"
import { finishJobs, type FinishedJob } from "../jobs/dependents.ts"
import { resultKey } from "../cache/results.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import type { RowToUnblock } from "../claim/unblock-and-claim.ts"
import { unblock } from "../claim/ready-queue.ts"
import { nodeOf, workflowOf } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"

/** Upstream tasks of a row that the batch finished. */
interface FinishedUpstreams {
  /** Number of the row, if the rows of the run were inserted in the order of their nodes; the claim checks it. */
  guessedRowId: number
  node: number
  path: string
  finished: number
  failed: number
  unmet: number
  waived: number
  /** Lane that the row moves to, or null. */
  lane: string | null
}

/** Changes of a run's counters. */
interface RunDelta {
  open: number
  failedTopLevel: number
  hooks: number
  total: number
  success: number
  failedTasks: number
  skipped: number
  cancelled: number
}

type FinishedRow = Pick<LoadedRow, "id" | "runSeq" | "node" | "path" | "kind" | "hook" | "parent" | "limits">

/** Counter of the run that a finished task belongs to. */
export const COUNTER = {
  success: "success",
  failed: "failedTasks",
  skipped: "skipped",
  cancelled: "cancelled",
} as const satisfies Record<FinalStatus, keyof RunDelta>

export class BatchEffects {
  readonly #tx: Tx
  readonly #downstream = new Map<number, Map<number | string, FinishedUpstreams>>()
  readonly #parents = new Map<number, { finished: number; failed: number }>()
  readonly #runs = new Map<number, RunDelta>()
  readonly #freedSlots = new Map<number, number>()
  readonly #unusedSlots = new Map<number, number>()
  readonly #touchedRuns = new Set<number>()
  readonly #jobs: FinishedJob[] = []
  readonly #overdueGroups = new Set<number>()

  constructor(tx: Tx) {
    this.#tx = tx
  }

  /** Records a finished row, and counts down the rows below it. */
  finish(row: FinishedRow, status: FinalStatus, skipReason: SkipReason | null): void {
    this.#countEnd(row, status)
    if (!isJobRow(row.runSeq)) this.#collectEdges(row, status, skipReason)
  }

  /** Records a cancelled row of a run or group that ends: the rows below it are cancelled too, and need no count. */
  cancel(row: FinishedRow): void {
    this.#countEnd(row, "cancelled")
  }

  /** Counts a finished row in its run and its container. The end of a job is passed on to its dependents. */
  #countEnd(row: FinishedRow, status: FinalStatus): void {
    if (isJobRow(row.runSeq)) {
      this.#jobs.push({ row: row.id, id: row.path, status: jobStatus(status) })
      return
    }
    const allowedFailure = status === "failed" && isAllowedFailure(nodeOf(this.#tx, row), row.kind, status)
    const counts = countFinish({ kind: row.kind, hook: row.hook, isChild: row.parent !== null, allowedFailure }, status)
    const run = this.runDelta(row.runSeq)
    run[COUNTER[status]] += counts.listedTasks
    run.open -= counts.open
    run.hooks -= counts.hooks
    run.failedTopLevel += counts.failedTopLevel
    if (row.parent !== null) this.#finishChild(row.parent, counts.failedChildren)
  }

  #finishChild(parent: number, failed: number): void {
    const counts = this.#parents.get(parent)
    if (counts === undefined) this.#parents.set(parent, { finished: 1, failed })
    else {
      counts.finished++
      counts.failed += failed
    }
  }

  #collectEdges(row: FinishedRow, status: FinalStatus, skipReason: SkipReason | null): void {
    const run = this.#tx.runs.get(row.runSeq)
    const workflow = this.#tx.workflows.get(run.versionId)
    const edges = edgesOf(workflow, run, row, countedOutcome(workflow.nodes[row.node]!, row.kind, status, skipReason))
    if (edges.length === 0) return
    const rows = this.#downstream.get(row.runSeq) ?? new Map<number | string, FinishedUpstreams>()
    this.#downstream.set(row.runSeq, rows)
    for (const { node, path, outcome, reroute } of edges) {
      const key = resultKey(node, path)
      let counts = rows.get(key)
      if (counts === undefined) {
        // A guess that saves a search: insert-rows.ts inserts the top-level rows of a run in the order of their nodes.
        const id = row.id - row.node + node
        counts = { guessedRowId: id, node, path, finished: 0, failed: 0, unmet: 0, waived: 0, lane: null }
        rows.set(key, counts)
      }
      counts.finished++
      if (outcome !== "success") counts[outcome]++
      if (reroute !== null) counts.lane = reroute
    }
  }

  /** Frees the slots of a row that was in flight: of its limits and of its queue. */
  free({ limits, lane }: Pick<LoadedRow, "limits" | "lane">): void {
    for (const id of limits) add(this.#freedSlots, id, 1)
    const queue = this.#tx.queues.limitOf(lane)
    if (queue !== null) add(this.#freedSlots, queue, 1)
  }

  /** Records a ready row that finished without using its slots: the next parked row may use them. */
  unparkInPlaceOf(limits: readonly number[]): void {
    for (const id of limits) add(this.#unusedSlots, id, 1)
  }

  /** Records groups that have passed their timeout and may contain unfinished rows. */
  markOverdue(groups: readonly number[]): void {
    for (const id of groups) this.#overdueGroups.add(id)
  }

  get overdueGroups(): ReadonlySet<number> {
    return this.#overdueGroups
  }

  /** Records that a row of this run has changed. */
  touch(seq: number): void {
    this.#touchedRuns.add(seq)
  }

  /** Returns whether a changed run has rows outside these gate lanes, which another process has to hear of. */
  concernsOthers(gateLanes: readonly string[]): boolean {
    for (const seq of this.#touchedRuns)
      if (!isJobRow(seq) && !gateLanes.includes(gateLane(this.#tx.runs.get(seq)))) return true
    return false
  }

  runDelta(seq: number): RunDelta {
    let run = this.#runs.get(seq)
    if (run === undefined) {
      run = { open: 0, failedTopLevel: 0, hooks: 0, total: 0, success: 0, failedTasks: 0, skipped: 0, cancelled: 0 }
      this.#runs.set(seq, run)
      this.touch(seq)
    }
    return run
  }

  /** Writes the counters of rows and runs. Rows that a claim can unblock in its own write go into `toUnblock`, if it is given, instead. */
  apply(toUnblock?: RowToUnblock[]): void {
    for (const [runSeq, rows] of this.#downstream) this.#applyDownstream(runSeq, rows.values(), toUnblock)
    for (const [id, { finished, failed }] of this.#parents) this.#tx.db.put(COUNT_DOWN_CONTAINER, finished, failed, id)
    for (const [seq, run] of this.#runs) countRun(this.#tx, seq, run)
    finishJobs(this.#tx, this.#jobs)
    this.#downstream.clear()
    this.#parents.clear()
    this.#runs.clear()
    this.#jobs.length = 0
  }

  #applyDownstream(runSeq: number, rows: Iterable<FinishedUpstreams>, toUnblock?: RowToUnblock[]): void {
    const { nodes } = workflowOf(this.#tx, runSeq)
    for (const counts of rows) {
      const { guessedRowId, node, path, finished, failed, unmet, waived } = counts
      const { group, gated } = nodes[node]!
      const isUngatedSuccess = path === "" && failed + unmet + waived === 0 && group === null && !gated
      if (toUnblock !== undefined && isUngatedSuccess) toUnblock.push({ rowId: guessedRowId, runSeq, node, path: "", finished })
      else writeCountDown(this.#tx, runSeq, counts)
    }
  }

  /** Frees the recorded slots and unparks as many rows. */
  unpark(): void {
    const { limits } = this.#tx
    for (const [id, slots] of this.#freedSlots) limits.free(id, slots)
    for (const [id, slots] of this.#freedSlots) add(this.#unusedSlots, id, slots)
    for (const [id, rows] of this.#unusedSlots) {
      const runs = limits.unpark(id, rows)
      if (runs.some((seq) => !this.#touchedRuns.has(seq))) this.#tx.wake.noteWorkLeft()
    }
    this.#freedSlots.clear()
    this.#unusedSlots.clear()
  }
}

const add = (counts: Map<number, number>, id: number, count: number): void => {
  counts.set(id, (counts.get(id) ?? 0) + count)
}

const COUNT_DOWN = `
UPDATE tasks SET upstream_pending = upstream_pending - ?, upstream_failed = upstream_failed + ?,
  upstream_unmet = upstream_unmet + ?, upstream_waived = upstream_waived + ?, lane = coalesce(?, lane)
WHERE run_seq = ? AND node = ? AND path = ? AND status = 'pending'`

const writeCountDown = (tx: Tx, runSeq: number, counts: FinishedUpstreams): void => {
  const { node, path, finished, failed, unmet, waived, lane } = counts
  if (failed + unmet + waived === 0) unblock(tx, { runSeq, node, path, finished })
  else tx.db.put(COUNT_DOWN, finished, failed, unmet, waived, lane, runSeq, node, path)
}

/** The last child makes its container ready for the gate, which gathers the outputs. */
const COUNT_DOWN_CONTAINER = `
UPDATE tasks SET children_pending = children_pending - ?1, children_failed = children_failed + ?2,
  status = CASE WHEN status = 'running' AND children_pending = ?1 THEN 'pending' ELSE status END
WHERE id = ?3`

const COUNT_RUN = `
UPDATE runs SET open_tasks = open_tasks + ?, failed = failed + ?, hooks_pending = hooks_pending + ?, tasks_total = tasks_total + ?,
  tasks_success = tasks_success + ?, tasks_failed = tasks_failed + ?, tasks_skipped = tasks_skipped + ?,
  tasks_cancelled = tasks_cancelled + ?
WHERE seq = ?`

const countRun = (tx: Tx, seq: number, run: RunDelta): void => {
  const { open, failedTopLevel, hooks, total, success, failedTasks, skipped, cancelled } = run
  tx.db.put(COUNT_RUN, open, failedTopLevel, hooks, total, success, failedTasks, skipped, cancelled, seq)
}
