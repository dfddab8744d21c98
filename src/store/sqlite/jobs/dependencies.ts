// The edges between jobs, and their change while a job is PENDING.

import { dependencyStatus, detectCycle, type JobStatus } from "../../../core/rules/jobs.ts"
import type { JobRefusal } from "../../contract/jobs.ts"
import { blockedBy } from "../../shared/messages.ts"
import { blockDependents } from "./edges.ts"
import { dependenciesOf } from "./reads.ts"
import { moveJob } from "./status.ts"
import type { LoadedRow } from "../runs/insert-rows.ts"
import type { Session, Tx } from "../connection/tx.ts"

const KNOWN = `
SELECT j.id, j.task_id, j.status FROM json_each(?) AS wanted CROSS JOIN jobs j ON j.id = wanted.value`

/** Those of these jobs that exist. */
export const known = (session: Session, ids: readonly string[]): Map<string, { row: number; status: JobStatus }> =>
  new Map(
    session.db.all<[string, number, JobStatus]>(KNOWN, JSON.stringify(ids)).map(([id, row, status]) => [id, { row, status }]),
  )

const INSERT = "INSERT INTO job_edges (dependency, dependent, position) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"

export const insertEdges = (tx: Tx, dependent: number, dependencies: readonly number[]): void => {
  for (const [position, dependency] of dependencies.entries()) tx.db.run(INSERT, dependency, dependent, position)
}

const same = (a: readonly string[], b: readonly string[]): boolean => a.length === b.length && a.every((id) => b.includes(id))

/** A circle is told of whatever the job's status. Dependencies that stay as they are may be sent along at any time. */
export const dependenciesRefused = (
  tx: Tx,
  row: LoadedRow,
  status: JobStatus,
  dependencies: readonly string[],
): JobRefusal | null => {
  const id = row.path
  const { has_cycle, cycle_path } = detectCycle(id, dependencies, edgesAbove(tx, dependencies))
  if (has_cycle) return { refused: "cycle", path: cycle_path }
  const existing = known(tx, dependencies)
  const missing = dependencies.find((each) => !existing.has(each))
  if (missing !== undefined) return { refused: "missing_dependency", id, dependency: missing }
  return status === "PENDING" || same(dependencies, dependenciesOf(tx, row.id)) ? null : { refused: "not_pending" }
}

const ABOVE = `
WITH RECURSIVE above(row) AS (
  SELECT j.task_id FROM json_each(?) AS wanted JOIN jobs j ON j.id = wanted.value
  UNION SELECT e.dependency FROM above JOIN job_edges e ON e.dependent = above.row)
SELECT a.id AS dependent, b.id AS dependency FROM above JOIN job_edges e ON e.dependent = above.row
JOIN jobs a ON a.task_id = e.dependent JOIN jobs b ON b.task_id = e.dependency`

/** All that these jobs depend on, by job. */
const edgesAbove = (tx: Tx, ids: readonly string[]): Map<string, string[]> => {
  const edges = new Map<string, string[]>()
  for (const [from, to] of tx.db.all<[string, string]>(ABOVE, JSON.stringify(ids))) {
    const list = edges.get(from)
    if (list === undefined) edges.set(from, [to])
    else list.push(to)
  }
  return edges
}

const REMOVE = "DELETE FROM job_edges WHERE dependent = ?"
const SET_LEFT = "UPDATE tasks SET upstream_pending = ? WHERE id = ?"
const BLOCK = "UPDATE tasks SET status = 'skipped', error = ?, finished_at = ? WHERE id = ?"

/** Of a PENDING job, or the same as before. */
export const changeDependencies = (tx: Tx, row: LoadedRow, dependencies: readonly string[]): void => {
  const existing = known(tx, dependencies)
  tx.db.run(REMOVE, row.id)
  insertEdges(
    tx,
    row.id,
    dependencies.map((id) => existing.get(id)!.row),
  )
  const statuses = new Map([...existing].map(([id, { status }]) => [id, status]))
  const before = tx.db.get<[JobStatus]>(STATUS, row.id)![0]
  if (before !== "PENDING") return
  const state = dependencyStatus({ dependencies }, statuses)
  tx.db.run(SET_LEFT, dependencies.filter((id) => statuses.get(id) !== "COMPLETED").length, row.id)
  if (state === "SATISFIED") moveJob(tx, row.path, "READY", {})
  if (state !== "BLOCKED") return
  const error = blockedBy(dependencies.find((id) => dependencyStatus({ dependencies: [id] }, statuses) === "BLOCKED")!)
  tx.db.run(BLOCK, error, tx.at, row.id)
  moveJob(tx, row.path, "BLOCKED", { error })
  blockDependents(tx, { row: row.id, id: row.path })
}

const STATUS = "SELECT status FROM jobs WHERE task_id = ?"
