// Single jobs from priority queues (seed of the rules: core/rules/jobs.ts). A job is a row of `tasks` without a run: same claim, same
// fence, same retry; its name, payload and policy lie in `jobs`, its dependencies in `job_edges`, counted down by `advance`.

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
  /** Executor fields as a compiled node would have them, or null: a handler of its queue runs it. */
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
  /** All or nothing. A dependency may be another job of the batch. A failed or blocked dependency makes the job BLOCKED at once. */
  createJobs(jobs: NewJob[]): Promise<JobRow[] | JobRejection>
  getJob(id: string): Promise<JobRow | null>
  updateJob(id: string, change: JobChange): Promise<JobRow | JobRejection>
  /** Gone at once; a RUNNING job's attempt is killed by its holder, and its slots are free when it is dead. */
  deleteJob(id: string): Promise<JobRejection | null>
  /** FAILED with error `cancelled`, dependents BLOCKED; a RUNNING one when its attempt is dead. */
  cancelJob(id: string): Promise<JobRow | JobRejection>
  /** created_at DESC, id ASC; every filter by an index, whatever the number of jobs. */
  searchJobs(query: { filter: JobFilter; limit: number; after?: { createdAt: string; id: string } }): Promise<JobRow[]>
}
