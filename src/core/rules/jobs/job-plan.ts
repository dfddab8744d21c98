// Plans jobs before a store writes them: why new jobs or new dependencies are rejected, which status a job starts with, and how
// many dependencies it waits for. Both stores call this inside the transaction that has read the dependencies.

import { dependencyStatus, detectCycle, isJobFinished, type JobStatus } from "./jobs.ts"
import { propagateFailure } from "./published.ts"
import { blockedBy } from "../messages.ts"
import { indexKey } from "../../values/index-key.ts"

export type JobRejection =
  | { rejected: "exists"; id: string }
  | { rejected: "missing_dependency"; id: string; dependency: string }
  | { rejected: "cycle"; path: string[] }
  | { rejected: "terminal"; status: JobStatus }
  | { rejected: "has_dependents" }
  | { rejected: "not_ended" }
  | { rejected: "not_pending" }
  | { rejected: "key_exists"; id: string }
  | { rejected: "not_failed"; status: JobStatus }
  | { rejected: "not_found" }

/** A job id with the ids that it depends on. */
export interface JobDependencies {
  id: string
  dependencies: readonly string[]
}

/** A job with its key, which is unique per name. */
export interface KeyedJob extends JobDependencies {
  name: string
  key: string | null
}

/** Returns the text that identifies the key of a job in `KeyPlan`; null without a key. */
export const keyOfJob = ({ name, key }: Pick<KeyedJob, "name" | "key">): string | null =>
  key === null ? null : `${name}\0${indexKey(key)}`

export interface KeyPlan<Job> {
  /** Jobs to create. Dependencies on a job that is not created are replaced by the job that has its key. */
  fresh: Job[]
  /** Existing jobs to replace. */
  replaced: { id: string; by: Job }[]
  /** For each given job, the id of the job that it stands for, and whether that is new. */
  results: { id: string; created: boolean }[]
}

/** Plans which of the given jobs are created. `existing`: ids of the jobs that have the keys, by `keyOfJob`. */
export const resolveKeys = <Job extends KeyedJob>(
  jobs: readonly Job[],
  existing: ReadonlyMap<string, string>,
  onConflict: "existing" | "replace" | "error",
): KeyPlan<Job> | JobRejection => {
  const created = new Map<string, number>()
  const aliases = new Map<string, string>()
  const plan: KeyPlan<Job> = { fresh: [], replaced: [], results: [] }
  for (const job of jobs) {
    const key = keyOfJob(job)
    const found = key === null ? undefined : existing.get(key)
    const position = key === null ? undefined : created.get(key)
    const id = found ?? (position === undefined ? undefined : plan.fresh[position]!.id)
    if (id === undefined) {
      if (key !== null) created.set(key, plan.fresh.length)
      plan.fresh.push(job)
      plan.results.push({ id: job.id, created: true })
      continue
    }
    if (onConflict === "error") return { rejected: "key_exists", id }
    if (id !== job.id) aliases.set(job.id, id)
    plan.results.push({ id, created: false })
    if (onConflict !== "replace") continue
    if (position === undefined) plan.replaced.push({ id, by: job })
    else plan.fresh[position] = { ...job, id }
  }
  if (aliases.size === 0) return plan
  const rename = (job: Job): Job => ({ ...job, dependencies: job.dependencies.map((id) => aliases.get(id) ?? id) })
  return { ...plan, fresh: plan.fresh.map(rename) }
}

type Existing = Pick<ReadonlyMap<string, { status: JobStatus }>, "has">

/** Returns why these jobs cannot be created together, or null. A dependency may be another job of the same call. */
export const rejectNewJobs = (jobs: readonly JobDependencies[], existing: Existing): JobRejection | null => {
  const edges = new Map<string, readonly string[]>()
  for (const { id, dependencies } of jobs) {
    if (existing.has(id) || edges.has(id)) return { rejected: "exists", id }
    edges.set(id, dependencies)
  }
  // A root that depends on every new job with dependencies finds all cycles in one search.
  const dependents = jobs.flatMap(({ id, dependencies }) => (dependencies.length > 0 ? id : []))
  const { has_cycle, cycle_path } = detectCycle("", dependents, edges)
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
  job: JobDependencies & { status: JobStatus },
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

const INDEPENDENT: JobPlan = { status: "READY", rowStatus: "pending", pending: 0, error: null }

/** Returns the state of a job that has these dependencies and was never claimed. */
export const planJob = (dependencies: readonly string[], statuses: ReadonlyMap<string, JobStatus>): JobPlan => {
  if (dependencies.length === 0) return INDEPENDENT
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
export const planNewJobs = <Job extends JobDependencies>(
  jobs: readonly Job[],
  existing: ReadonlyMap<string, JobStatus>,
): { job: Job; plan: JobPlan }[] => {
  const ordered = jobs.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  if (jobs.every(({ dependencies }) => dependencies.length === 0)) return ordered.map((job) => ({ job, plan: INDEPENDENT }))
  const linked = jobs.map(({ id, dependencies }) => ({ id, dependencies, status: planJob(dependencies, existing).status }))
  const statuses = new Map<string, JobStatus>(existing)
  for (const { id, status } of linked) statuses.set(id, status)
  for (const { id, status } of linked)
    if (status === "BLOCKED") for (const blocked of propagateFailure(id, linked)) statuses.set(blocked, "BLOCKED")
  return ordered.map((job) => ({ job, plan: planJob(job.dependencies, statuses) }))
}
