// Single jobs from priority queues, by the rules of core/rules/jobs.ts. A job is a row of `tasks` without a run, with the same
// claims, fences and retries. `jobs` stores its name, payload and retry policy, `job_edges` its dependencies.

import type { Output } from "../../core/model/change.ts"
import type { JobRejection } from "../../core/rules/job-plan.ts"
import type { JobRetryPolicy, JobStatus } from "../../core/rules/jobs.ts"
import type { Json, JsonObject } from "../../core/model/json.ts"

export interface NewJob {
  id: string
  name: string
  queue: string
  payload: Json
  priority: number
  dependencies: string[]
  retryPolicy: JobRetryPolicy
  /** Executor fields of a compiled node; null: a handler of the queue runs the job. */
  task: JsonObject | null
  /** Jobs of one queue with the same key run one at a time. */
  concurrencyKey: string | null
}

export interface JobRow extends NewJob {
  row: number
  status: JobStatus
  createdAt: string
  updatedAt: string
  attemptCount: number
  error: string | null
  exitCode: number | null
  output: Output | null
  worker: string | null
  attemptId: string | null
  availableAt: string | null
  startedAt: string | null
  finishedAt: string | null
}

export type { JobRejection } from "../../core/rules/job-plan.ts"

export interface JobChange {
  name?: string
  queue?: string
  payload?: Json
  priority?: number
  dependencies?: string[]
  retryPolicy?: JobRetryPolicy
}

export interface JobFilter {
  queue?: string
  status?: JobStatus
  priorityMin?: number
  priorityMax?: number
  createdAfter?: string
  createdBefore?: string
}

export interface JobStore {
  /** Creates all jobs or none. A dependency may be another job of the call. A failed or blocked dependency blocks the job. */
  createJobs(jobs: NewJob[]): Promise<JobRow[] | JobRejection>
  getJob(id: string): Promise<JobRow | null>
  updateJob(id: string, change: JobChange): Promise<JobRow | JobRejection>
  /** Deletes a job at once. The holder of a RUNNING job stops the attempt, whose slots are free when it has finished. */
  deleteJob(id: string): Promise<JobRejection | null>
  /** Fails a job with the error `cancelled` and blocks its dependents; a RUNNING one when its attempt has finished. */
  cancelJob(id: string): Promise<JobRow | JobRejection>
  /** Lists jobs that reached a final status this long ago and that no other job names as a dependency, oldest first. */
  expiredJobs(query: { olderThanMs: number; limit: number }): Promise<string[]>
  /** Lists jobs, newest first, then by id. Every filter uses an index. */
  searchJobs(query: { filter: JobFilter; limit: number; after?: { createdAt: string; id: string } }): Promise<JobRow[]>
}
