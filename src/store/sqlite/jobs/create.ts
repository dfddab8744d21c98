// New jobs, all or none. Their statuses follow from their dependencies by the rules of core/rules/jobs.ts.

import { dependencyStatus, detectCycle, type JobStatus, propagateFailure } from "../../../core/rules/jobs.ts"
import { jobLane, jobLimits } from "../../shared/job-rows.ts"
import type { JobRefusal, JobRow, NewJob } from "../../contract/jobs.ts"
import { blockedBy } from "../../shared/messages.ts"
import { insertEdges, known } from "./dependencies.ts"
import { readJob } from "./reads.ts"
import { tellJob } from "./status.ts"
import { limitText } from "../claim/limits.ts"
import type { Tx } from "../connection/tx.ts"

export const createJobs = (tx: Tx, jobs: readonly NewJob[]): JobRow[] | JobRefusal => {
  const existing = known(tx, [...jobs.map(({ id }) => id), ...jobs.flatMap(({ dependencies }) => dependencies)])
  const refused = refusalOf(jobs, existing)
  if (refused !== null) return refused
  const statuses = statusesOf(jobs, existing)
  const rows = new Map<string, number>([...existing].map(([id, { row }]) => [id, row]))
  // Rows are claimed in their order: among jobs of one call that is the order of their ids.
  for (const job of jobs.toSorted((a, b) => (a.id < b.id ? -1 : 1))) rows.set(job.id, insert(tx, job, statuses))
  for (const job of jobs)
    insertEdges(
      tx,
      rows.get(job.id)!,
      job.dependencies.map((id) => rows.get(id)!),
    )
  for (const { id } of jobs) tellJob(tx, id, statuses.get(id)!, {})
  tx.wakeOthers = true
  return jobs.map(({ id }) => readJob(tx, rows.get(id)!))
}

type Known = ReturnType<typeof known>

const refusalOf = (jobs: readonly NewJob[], existing: Known): JobRefusal | null => {
  const edges = new Map<string, readonly string[]>()
  for (const { id, dependencies } of jobs) {
    if (existing.has(id) || edges.has(id)) return { refused: "exists", id }
    edges.set(id, dependencies)
  }
  // One search for all: from something that depends on each of them.
  const { has_cycle, cycle_path } = detectCycle("", [...edges.keys()], edges)
  if (has_cycle) return { refused: "cycle", path: cycle_path }
  for (const { id, dependencies } of jobs) {
    const missing = dependencies.find((each) => !existing.has(each) && !edges.has(each))
    if (missing !== undefined) return { refused: "missing_dependency", id, dependency: missing }
  }
  return null
}

const NEW_STATUS = {
  SATISFIED: "READY",
  WAITING: "PENDING",
  BLOCKED: "BLOCKED",
} as const satisfies Record<ReturnType<typeof dependencyStatus>, JobStatus>

/** Of the new jobs and of what they depend on. */
const statusesOf = (jobs: readonly NewJob[], existing: Known): Map<string, JobStatus> => {
  const before = new Map([...existing].map(([id, { status }]) => [id, status]))
  const made = jobs.map(({ id, dependencies }) => ({
    id,
    dependencies,
    status: NEW_STATUS[dependencyStatus({ dependencies }, before)],
  }))
  const statuses = new Map<string, JobStatus>([...before, ...made.map(({ id, status }) => [id, status] as const)])
  for (const { id, status } of made)
    if (status === "BLOCKED") for (const below of propagateFailure(id, made)) statuses.set(below, "BLOCKED")
  return statuses
}

const INSERT = `
INSERT INTO tasks (run_seq, node, path, kind, workflow_id, status, upstream_pending, lane, priority, limits, error, finished_at)
VALUES (0, 0, ?, 'task', 0, ?, ?, ?, ?, ?, ?, ?) RETURNING id`

const INSERT_JOB = `
INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10, ?11)`

const insert = (tx: Tx, job: NewJob, statuses: ReadonlyMap<string, JobStatus>): number => {
  const { id, dependencies, priority } = job
  const status = statuses.get(id)!
  const left = dependencies.filter((each) => statuses.get(each) !== "COMPLETED").length
  const guilty = status === "BLOCKED" ? dependencies.find((each) => BAD.has(statuses.get(each)!))! : null
  const [row] = tx.db.get<[number]>(
    INSERT,
    id,
    guilty === null ? "pending" : "skipped",
    left,
    jobLane(job),
    priority,
    limitText(tx.limits.ensure(jobLimits(job))),
    guilty === null ? null : blockedBy(guilty),
    guilty === null ? null : tx.at,
  )!
  const { name, queue, payload, retryPolicy, task, concurrencyKey } = job
  const text = task === null ? null : JSON.stringify(task)
  const policy = JSON.stringify(retryPolicy)
  tx.db.run(INSERT_JOB, row, id, name, queue, priority, status, tx.at, concurrencyKey, policy, text, JSON.stringify(payload))
  return row
}

const BAD: ReadonlySet<JobStatus> = new Set(["FAILED", "BLOCKED"])
