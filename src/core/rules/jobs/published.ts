// Published rules of the job queue: order, transitions and cascades. The stores implement them in SQL; apart from `propagateFailure`
// (job-plan.ts), only users of the SDK and tests call these functions. A conformance test compares the stores with them.

import { dependencyStatus, JOB_TRANSITIONS, type JobStatus, type JobWithStatus } from "./jobs.ts"

/** Fields that determine the order of jobs. */
export interface OrderedJob {
  id: string
  priority: number
  /** ISO instant. */
  created_at: string
}

/**
 * Orders the jobs of a queue by higher priority, then earlier creation, then smaller id.
 * The stores claim in the order of claim-order.ts, where the number of a row stands for its creation.
 */
export const compareJobs = (a: OrderedJob, b: OrderedJob): number => {
  if (a.priority !== b.priority) return b.priority - a.priority
  const created = Date.parse(a.created_at) - Date.parse(b.created_at)
  if (created !== 0) return created
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0
}

export const orderJobs = <T extends OrderedJob>(jobs: readonly T[]): T[] => jobs.toSorted(compareJobs)

export const selectNextJobs = <T extends OrderedJob>(ready: readonly T[], runningCount: number, maxConcurrent: number): T[] => {
  const slots = maxConcurrent - runningCount
  return slots <= 0 ? [] : orderJobs(ready).slice(0, slots)
}

/** Returns whether the table has this transition. A cancel is no part of it: it moves an unfinished job to FAILED. */
export const canTransition = (from: JobStatus, to: JobStatus): boolean =>
  JOB_TRANSITIONS.some((row) => row.from === from && row.to === to)

const dependentsOf = <T extends JobWithStatus>(jobs: readonly T[]): Map<string, T[]> => {
  const dependents = new Map<string, T[]>()
  for (const job of jobs) {
    for (const id of new Set(job.dependencies)) {
      const list = dependents.get(id)
      if (list === undefined) dependents.set(id, [job])
      else list.push(job)
    }
  }
  return dependents
}

/** Returns the ids that become BLOCKED: pending dependents, transitively. A dependent in another status ends the cascade there. */
export const propagateFailure = (failedJobId: string, jobs: readonly JobWithStatus[]): Set<string> => {
  const dependents = dependentsOf(jobs)
  const blocked = new Set<string>()
  const frontier = [failedJobId]
  while (frontier.length > 0) {
    for (const job of dependents.get(frontier.pop()!) ?? []) {
      if (job.status !== "PENDING" || blocked.has(job.id)) continue
      blocked.add(job.id)
      frontier.push(job.id)
    }
  }
  return blocked
}

/** Returns the ids that become READY once the given job is COMPLETED, whatever its status in `jobs`. */
export const propagateCompletion = (completedJobId: string, jobs: readonly JobWithStatus[]): Set<string> => {
  const statuses = new Map(jobs.map((job) => [job.id, job.status]))
  statuses.set(completedJobId, "COMPLETED")
  const ready = jobs.filter(
    (job) =>
      job.status === "PENDING" && job.dependencies.includes(completedJobId) && dependencyStatus(job, statuses) === "SATISFIED",
  )
  return new Set(ready.map((job) => job.id))
}
