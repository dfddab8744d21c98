// Plans jobs before a store writes them: why new jobs or new dependencies are rejected, which status a job starts with, and how
// many dependencies it waits for. Both stores call this inside the transaction that has read the dependencies.

import { dependencyStatus, detectCycle, isJobFinished, type JobStatus, propagateFailure } from "./jobs.ts"
import { blockedBy } from "./messages.ts"

export type JobRejection =
  | { rejected: "exists"; id: string }
  | { rejected: "missing_dependency"; id: string; dependency: string }
  | { rejected: "cycle"; path: string[] }
  | { rejected: "terminal"; status: JobStatus }
  | { rejected: "has_dependents" }
  | { rejected: "not_pending" }
  | { rejected: "not_found" }

/** A job id with the ids that it depends on. */
export interface JobNode {
  id: string
  dependencies: readonly string[]
}

type Existing = Pick<ReadonlyMap<string, { status: JobStatus }>, "has">

/** Returns why these jobs cannot be created together, or null. A dependency may be another job of the same call. */
export const rejectNewJobs = (jobs: readonly JobNode[], existing: Existing): JobRejection | null => {
  const edges = new Map<string, readonly string[]>()
  for (const { id, dependencies } of jobs) {
    if (existing.has(id) || edges.has(id)) return { rejected: "exists", id }
    edges.set(id, dependencies)
  }
  // A root that depends on every new job finds all cycles in one search.
  const { has_cycle, cycle_path } = detectCycle("", [...edges.keys()], edges)
  if (has_cycle) return { rejected: "cycle", path: cycle_path }
  for (const { id, dependencies } of jobs) {
    const missing = dependencies.find((dependency) => !existing.has(dependency) && !edges.has(dependency))
    if (missing !== undefined) return { rejected: "missing_dependency", id, dependency: missing }
  }
  return null
}

/** Returns why a job in this status accepts no change, or null. */
export const rejectChange = (status: JobStatus): JobRejection | null =>
  isJobFinished(status) ? { rejected: "terminal", status } : null

/**
 * Returns why a job cannot get these dependencies, or null. A cycle is reported in any status; unchanged dependencies are
 * accepted in any status. `edges`: the dependencies of everything above the job.
 */
export const rejectDependencies = (
  job: JobNode & { status: JobStatus },
  dependencies: readonly string[],
  existing: Existing,
  edges: ReadonlyMap<string, readonly string[]>,
): JobRejection | null => {
  const { has_cycle, cycle_path } = detectCycle(job.id, dependencies, edges)
  if (has_cycle) return { rejected: "cycle", path: cycle_path }
  const missing = dependencies.find((dependency) => !existing.has(dependency))
  if (missing !== undefined) return { rejected: "missing_dependency", id: job.id, dependency: missing }
  return job.status === "PENDING" || sameIds(dependencies, job.dependencies) ? null : { rejected: "not_pending" }
}

const sameIds = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((id) => b.includes(id))

export interface JobPlan {
  status: Extract<JobStatus, "PENDING" | "READY" | "BLOCKED">
  /** Status of the job's task row. A blocked job is finished. */
  rowStatus: "pending" | "skipped"
  /** Number of distinct dependencies that have not completed. */
  pending: number
  /** Error of a blocked job, else null. */
  error: string | null
}

const PLANNED_STATUS = {
  SATISFIED: "READY",
  WAITING: "PENDING",
  BLOCKED: "BLOCKED",
} as const satisfies Record<ReturnType<typeof dependencyStatus>, JobStatus>

/** Returns the state of a job that has these dependencies and was never claimed. */
export const planJob = (dependencies: readonly string[], statuses: ReadonlyMap<string, JobStatus>): JobPlan => {
  const status = PLANNED_STATUS[dependencyStatus({ dependencies }, statuses)]
  const pending = new Set(dependencies.filter((id) => statuses.get(id) !== "COMPLETED")).size
  if (status !== "BLOCKED") return { status, rowStatus: "pending", pending, error: null }
  const blocker = dependencies.find((id) => dependencyStatus({ dependencies: [id] }, statuses) === "BLOCKED")!
  return { status, rowStatus: "skipped", pending, error: blockedBy(blocker) }
}

/**
 * Returns the new jobs with their plans in the order of their ids. The stores insert rows in this order and claim rows of equal
 * priority by row number. `existing`: statuses of dependencies that exist already.
 */
export const planNewJobs = <Job extends JobNode>(
  jobs: readonly Job[],
  existing: ReadonlyMap<string, JobStatus>,
): { job: Job; plan: JobPlan }[] => {
  const linked = jobs.map(({ id, dependencies }) => ({ id, dependencies, status: planJob(dependencies, existing).status }))
  const statuses = new Map<string, JobStatus>(existing)
  for (const { id, status } of linked) statuses.set(id, status)
  for (const { id, status } of linked)
    if (status === "BLOCKED") for (const blocked of propagateFailure(id, linked)) statuses.set(blocked, "BLOCKED")
  const ordered = jobs.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  return ordered.map((job) => ({ job, plan: planJob(job.dependencies, statuses) }))
}
