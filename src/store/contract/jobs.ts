// Single jobs from priority queues, by the rules of core/rules/jobs/jobs.ts. A job is a row of `tasks` without a run, with the same
// claims, fences and retries. `jobs` stores its name, payload and retry policy, `job_edges` its dependencies.

import type { Output } from "../../core/model/change.ts"
import type { CallStep } from "../../core/model/function-signals.ts"
import type { JobRejection } from "../../core/rules/jobs/job-plan.ts"
import type { JobRetryPolicy, JobStatus } from "../../core/rules/jobs/jobs.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { Limit } from "../../core/model/row.ts"
import type { Progress } from "./store.ts"
import type { RetryPolicy } from "../../core/model/workflow.ts"

export interface NewJob {
  id: string
  name: string
  queue: string
  payload: Json
  priority: number
  dependencies: string[]
  /** Applies when `retry` is null. */
  retryPolicy: JobRetryPolicy
  /** Retries as tasks have them: lost attempts do not count (3 lost retries). null: `retryPolicy` applies. */
  retry: RetryPolicy | null
  /** Executor fields of a compiled node; null: a handler of the queue runs the job. */
  task: JsonObject | null
  /** At most `concurrencyLimit` jobs of one queue with the same key run at once. */
  concurrencyKey: string | null
  concurrencyLimit: number
  /** Further limits, each with its own key and cap. Jobs of all queues with the same key share the limit. */
  limits: Limit[]
  /** A second job of the same name with this key is not created for as long as the row is kept. */
  key: string | null
  /** The job becomes available at this instant, or after this delay, by the store's clock. `runAt` wins. */
  runAt: string | null
  delayMs: number | null
  /** Limit of one attempt; null: that of its task (default 1 h). */
  timeoutMs: number | null
  /** A job that has not started this long after it became available fails with the error `expired`. */
  expiresMs: number | null
  /** Jobs of one lane and priority take turns by group (fair scheduling). null: no group. */
  group: string | null
  /** Row of a durable function that has called the job, and that the end of the job resumes; its step. */
  callerRow?: number
  callerStep?: CallStep
  /** Name of the key or user that creates it; null or not given: nobody. */
  createdBy?: string | null
}

/** Settings of a job that has none. */
export const JOB_DEFAULTS = {
  retry: null,
  concurrencyKey: null,
  concurrencyLimit: 1,
  limits: [] as Limit[],
  key: null,
  runAt: null,
  delayMs: null,
  timeoutMs: null,
  expiresMs: null,
  group: null,
} as const satisfies Partial<NewJob>

export interface JobRow extends NewJob {
  /** False when `key` found an existing job. */
  created: boolean
  row: number
  createdBy: string | null
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
  /** The last progress that the attempt reported. */
  progress: Progress | null
  /** The full limit that the job waits for; null: none. */
  parked: { limit: string; cap: number; used: number } | null
}

export type { JobRejection } from "../../core/rules/jobs/job-plan.ts"

export interface JobEdit {
  name?: string
  queue?: string
  payload?: Json
  priority?: number
  dependencies?: string[]
  retryPolicy?: JobRetryPolicy
}

export interface JobFilter {
  name?: string
  queue?: string
  status?: JobStatus | readonly JobStatus[]
  priorityMin?: number
  priorityMax?: number
  createdAfter?: string
  createdBefore?: string
}

/** What happens to a new job whose `key` another job of its name has. `replace`: a job that has not started gets the new settings. */
export type OnKeyConflict = "existing" | "replace" | "error"

export interface CreateJobsOptions {
  /** Default `existing`: the existing job is returned. */
  onConflict?: OnKeyConflict
}

export interface JobStore {
  /**
   * Creates all jobs or none, and returns a row per given job. A dependency may be another job of the call. A failed or blocked
   * dependency blocks the job.
   */
  createJobs(jobs: NewJob[], options?: CreateJobsOptions): Promise<JobRow[] | JobRejection>
  getJob(id: string): Promise<JobRow | null>
  editJob(id: string, change: JobEdit): Promise<JobRow | JobRejection>
  /**
   * Deletes a job at once. The holder of a RUNNING job stops the attempt, whose slots are free when it has finished. `olderThanMs`: rejects
   * a job that `removableJobs` would not list, because it was retried meanwhile.
   */
  deleteJob(id: string, olderThanMs?: number): Promise<JobRejection | null>
  /** Fails a job with the error `cancelled` and blocks its dependents; a RUNNING one when its attempt has finished. */
  cancelJob(id: string): Promise<JobRow | JobRejection>
  /** Runs a FAILED job again, with all of its attempts. Dependents that it has blocked stay BLOCKED. */
  retryJob(id: string): Promise<JobRow | JobRejection>
  /** Lists jobs that reached a final status this long ago and that no other job names as a dependency, oldest first. */
  removableJobs(query: { olderThanMs: number; limit: number }): Promise<string[]>
  /** Lists jobs, newest first, then by id. Every filter uses an index. */
  searchJobs(query: { filter: JobFilter; limit: number; after?: { createdAt: string; id: string } }): Promise<JobRow[]>
}
