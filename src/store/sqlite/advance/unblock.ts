// What the ends of rows do to others, collected over a whole batch and applied once per row that it touches: the edges below,
// the container above, the run's counters, the slots of limits.

import { edgesOf } from "../../../core/rules/effects.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { type SkipReason, type TaskEnd, upstreamEnd } from "../../../core/model/status.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import { type FinishedJob, unblockDependents } from "../jobs/edges.ts"
import { placeIn } from "./results.ts"
import type { LoadedRow } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"

interface Release {
  /** Its id, if rows of its run have ids in the order of their nodes. */
  row: number
  node: number
  path: string
  ended: number
  failed: number
  unmet: number
  waived: number
  lane: string | null
}

interface RunDelta {
  open: number
  failed: number
  hooks: number
  total: number
  success: number
  taskFailed: number
  skipped: number
  cancelled: number
}

/** A row at the top level that successes have brought nearer to its turn; the gate has to judge it only if another upstream did not succeed. */
export interface Success {
  row: number
  runSeq: number
  node: number
  ended: number
}

type Ended = Pick<LoadedRow, "id" | "runSeq" | "node" | "path" | "kind" | "hook" | "parent" | "limits">

export class Effects {
  readonly #tx: Tx
  readonly #releases = new Map<number, Map<number | string, Release>>()
  readonly #parents = new Map<number, { ended: number; failed: number }>()
  readonly #runs = new Map<number, RunDelta>()
  readonly #freed = new Map<number, number>()
  readonly #chances = new Map<number, number>()
  readonly #touched = new Set<number>()
  readonly #jobs: FinishedJob[] = []
  /** Groups that are overdue, with what may be left below them. */
  readonly #overdue = new Set<number>()
  /** Not yet written. */
  readonly #successes: Success[] = []
  readonly #onward: boolean

  /** `onward`: who applies them takes the `successes`, and writes them. */
  constructor(tx: Tx, { onward = false } = {}) {
    this.#tx = tx
    this.#onward = onward
  }

  /** A row has ended. `follow`: count down what is below it (a cancelled run has nothing below that would go on). */
  ended(row: Ended, status: TaskEnd, skip: SkipReason | null, follow: boolean): void {
    if (isJobRow(row.runSeq)) {
      this.#jobs.push({ row: row.id, id: row.path, completed: status === "success" })
      return
    }
    const run = this.run(row.runSeq)
    if (row.kind === "task" && !row.hook) run[COUNTER[status]]++
    if (row.parent !== null) {
      const parent = this.#parents.get(row.parent)
      const failed = status === "failed" || status === "cancelled" ? 1 : 0
      if (parent === undefined) this.#parents.set(row.parent, { ended: 1, failed })
      else {
        parent.ended++
        parent.failed += failed
      }
    } else if (row.hook) run.hooks--
    else {
      run.open--
      if (status === "failed") run.failed++
    }
    if (follow) this.#follow(row, status, skip)
  }

  /** Slots of a row that was in flight: of its limits and of its queue. */
  freed({ limits, lane }: Pick<LoadedRow, "limits" | "lane">): void {
    for (const id of limits) this.#freed.set(id, (this.#freed.get(id) ?? 0) + 1)
    const queue = this.#tx.queues.limitOf(lane)
    if (queue !== null) this.#freed.set(queue, (this.#freed.get(queue) ?? 0) + 1)
  }

  /** A ready row went away without using its slots: the next one parked there must have its turn. */
  passedOn(limits: readonly number[]): void {
    for (const id of limits) this.#chances.set(id, (this.#chances.get(id) ?? 0) + 1)
  }

  /** Something may be left below these groups, whose time is over. */
  expire(groups: readonly number[]): void {
    for (const id of groups) this.#overdue.add(id)
  }

  get overdue(): ReadonlySet<number> {
    return this.#overdue
  }

  /** Something of this run was changed. */
  touch(seq: number): void {
    this.#touched.add(seq)
  }

  /** Whether a run was changed whose rows are in none of these lanes: whoever takes them must hear of it. */
  concernsOthers(gateLanes: readonly string[]): boolean {
    for (const seq of this.#touched) if (!isJobRow(seq) && !gateLanes.includes(gateLane(this.#tx.runs.get(seq)))) return true
    return false
  }

  run(seq: number): RunDelta {
    let run = this.#runs.get(seq)
    if (run === undefined) {
      run = { open: 0, failed: 0, hooks: 0, total: 0, success: 0, taskFailed: 0, skipped: 0, cancelled: 0 }
      this.#runs.set(seq, run)
      this.touch(seq)
    }
    return run
  }

  /** Steps of `advance` that come after all changes: rows and runs. */
  apply(): void {
    for (const [runSeq, releases] of this.#releases) this.#release(runSeq, releases.values())
    for (const [id, { ended, failed }] of this.#parents) this.#tx.db.put(COUNT_CHILDREN, ended, failed, id)
    for (const [seq, run] of this.#runs) applyRun(this.#tx, seq, run)
    for (const job of this.#jobs) unblockDependents(this.#tx, job)
    this.#releases.clear()
    this.#parents.clear()
    this.#runs.clear()
    this.#jobs.length = 0
  }

  #release(runSeq: number, releases: Iterable<Release>): void {
    const { nodes } = this.#tx.versions.get(this.#tx.runs.get(runSeq).versionId)
    for (const release of releases) {
      const { row, node, path, ended, failed, unmet, waived } = release
      const { group, gated } = nodes[node]!
      const plain = path === "" && failed + unmet + waived === 0 && group === null && !gated
      if (this.#onward && plain) this.#successes.push({ row, runSeq, node, ended })
      else applyRelease(this.#tx, runSeq, release)
    }
  }

  get successes(): readonly Success[] {
    return this.#successes
  }

  /** Gives slots back and lets as many parked rows be claimed. */
  unpark(): void {
    const { limits } = this.#tx
    for (const [id, slots] of this.#freed) limits.free(id, slots)
    for (const [id, rows] of this.#freed) this.#chances.set(id, (this.#chances.get(id) ?? 0) + rows)
    for (const [id, rows] of this.#chances) {
      const runs = limits.unpark(id, rows)
      if (runs.some((seq) => !this.#touched.has(seq))) this.#tx.wakeOthers = true
    }
    this.#freed.clear()
    this.#chances.clear()
  }

  #follow(row: Ended, status: TaskEnd, skip: SkipReason | null): void {
    const fact = this.#tx.runs.get(row.runSeq)
    const edges = edgesOf(this.#tx.versions.get(fact.versionId), fact, row, upstreamEnd(status, skip))
    if (edges.length === 0) return
    const releases = this.#releases.get(row.runSeq) ?? new Map<number | string, Release>()
    this.#releases.set(row.runSeq, releases)
    for (const { node, path, end, reroute } of edges) {
      const key = placeIn(node, path)
      let release = releases.get(key)
      if (release === undefined)
        releases.set(
          key,
          (release = { row: row.id - row.node + node, node, path, ended: 0, failed: 0, unmet: 0, waived: 0, lane: null }),
        )
      release.ended++
      if (end !== "success") release[end]++
      if (reroute !== null) release.lane = reroute
    }
  }
}

export const COUNTER = {
  success: "success",
  failed: "taskFailed",
  skipped: "skipped",
  cancelled: "cancelled",
} as const satisfies Record<TaskEnd, keyof RunDelta>

const RELEASE_SUCCESS = `
UPDATE tasks SET upstream_pending = upstream_pending - ? WHERE run_seq = ? AND node = ? AND path = ? AND status = 'pending'`

const RELEASE = `
UPDATE tasks SET upstream_pending = upstream_pending - ?, upstream_failed = upstream_failed + ?, upstream_unmet = upstream_unmet + ?, upstream_waived = upstream_waived + ?,
  lane = coalesce(?, lane)
WHERE run_seq = ? AND node = ? AND path = ? AND status = 'pending'`

const applyRelease = (tx: Tx, runSeq: number, release: Release): void => {
  const { node, path, ended, failed, unmet, waived, lane } = release
  if (failed + unmet + waived === 0) tx.db.put(RELEASE_SUCCESS, ended, runSeq, node, path)
  else tx.db.put(RELEASE, ended, failed, unmet, waived, lane, runSeq, node, path)
}

export const release = (tx: Tx, { runSeq, node, ended }: Success): void => tx.db.put(RELEASE_SUCCESS, ended, runSeq, node, "")

/** The last child makes its container ready again, for the gate to gather. */
const COUNT_CHILDREN = `
UPDATE tasks SET children_pending = children_pending - ?1, children_failed = children_failed + ?2,
  status = CASE WHEN status = 'running' AND children_pending = ?1 THEN 'pending' ELSE status END
WHERE id = ?3`

const COUNT_RUN = `
UPDATE runs SET open_tasks = open_tasks + ?, failed = failed + ?, hooks_pending = hooks_pending + ?, tasks_total = tasks_total + ?,
  tasks_success = tasks_success + ?, tasks_failed = tasks_failed + ?, tasks_skipped = tasks_skipped + ?,
  tasks_cancelled = tasks_cancelled + ?
WHERE seq = ?`

const applyRun = (tx: Tx, seq: number, run: RunDelta): void => {
  const { open, failed, hooks, total, success, taskFailed, skipped, cancelled } = run
  tx.db.put(COUNT_RUN, open, failed, hooks, total, success, taskFailed, skipped, cancelled, seq)
}
