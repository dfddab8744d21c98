// Jobs as task rows in both stores: rows without a run, whose path is the id of the job.

import { jobLimitKey } from "../../core/routing/limit-keys.ts"
import { DEFAULT_JOB_RETRY, JOB_LIMITS, type JobRetryPolicy, type JobStatus } from "../../core/rules/jobs.ts"
import type { Json, JsonObject } from "../../core/model/json.ts"
import { handlerLane, workLane } from "../../core/routing/lanes.ts"
import type { Limit } from "../../core/model/row.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import type { ClaimedJob } from "../contract/claim.ts"
import type { JobRow, JobStore, NewJob } from "../contract/jobs.ts"
import { outputOf } from "./codec.ts"
import type { OutputRow } from "./task-rows.ts"

/** `run_seq` of job rows, which belong to no run. */
export const JOB_RUN_SEQ = 0

/** Tells the row of a job from that of a run's task. */
export const isJobRow = (runSeq: number): boolean => runSeq === JOB_RUN_SEQ

const STATUS = {
  pending: "READY",
  dispatched: "RUNNING",
  running: "RUNNING",
  success: "COMPLETED",
  failed: "FAILED",
  cancelled: "FAILED",
  skipped: "BLOCKED",
} as const satisfies Record<TaskStatus, JobStatus>

/** Returns the status of a job from that of its row, once its dependencies are completed. Before that the job is PENDING. */
export const jobStatus = (row: TaskStatus): JobStatus => STATUS[row]

const nameOf = (name: unknown): string => (typeof name === "string" ? name : "")

/** Returns the lane of a job. A job without a task waits for a handler of its queue. */
export const jobLane = ({ queue, task }: Pick<NewJob, "queue" | "task">): string =>
  task === null
    ? handlerLane(queue)
    : workLane(
        { id: "", private: false },
        { queue, labels: [], executor: nameOf(task["executor"]), function: nameOf(task["function"]) },
      )

/** Returns the limits of a job: jobs of one queue with the same key run one at a time. */
export const jobLimits = ({ queue, concurrencyKey }: Pick<NewJob, "queue" | "concurrencyKey">): Limit[] =>
  concurrencyKey === null ? [] : [{ key: jobLimitKey(queue, concurrencyKey), cap: 1 }]

/** Columns of `jobs` that a claim carries. */
export interface ClaimedJobColumns {
  id: string
  name: string
  queue: string
  payload: string
  retry_policy: string
  task: string | null
}

export const claimedJob = ({ id, name, queue, payload, retry_policy, task }: ClaimedJobColumns): ClaimedJob => ({
  id,
  name,
  queue,
  payload: JSON.parse(payload) as Json,
  retryPolicy: JSON.parse(retry_policy) as JobRetryPolicy,
  task: task === null ? null : (JSON.parse(task) as JsonObject),
})

/** Stands in for a job that was deleted while its attempt was in flight. */
export const DELETED_JOB: ClaimedJob = {
  id: "",
  name: "",
  queue: "",
  payload: null,
  retryPolicy: DEFAULT_JOB_RETRY,
  task: null,
}

/** Columns of a job `j`, joined with its row `t`. */
export const JOB_COLUMNS = `j.task_id AS "row", j.id, j.name, j.queue, j.payload, j.priority, j.retry_policy, j.task,
  j.concurrency_key AS "concurrencyKey", j.status, j.created_at AS "createdAt", j.updated_at AS "updatedAt",
  t.attempt AS "attemptCount", t.error, t.exit_code AS "exitCode", t.output, t.output_key, t.output_bytes, t.worker,
  t.attempt_id AS "attemptId", t.available_at AS "availableAt", t.started_at AS "startedAt", t.finished_at AS "finishedAt"`

export type JobColumns = Omit<JobRow, keyof ClaimedJob | "output" | "dependencies"> & ClaimedJobColumns & OutputRow

export const jobOf = (columns: JobColumns, dependencies: string[]): JobRow => {
  const { id, name, queue, payload, retry_policy, task, output, output_key, output_bytes, ...row } = columns
  return {
    ...claimedJob({ id, name, queue, payload, retry_policy, task }),
    ...row,
    output: outputOf(output, output_key, output_bytes),
    dependencies,
  }
}

/** The part of a search that is equal in both stores. Jobs are found by priority, newest first. */
export interface JobSearch {
  priorities: number[]
  /** Jobs were created before this time; null: no limit. */
  createdBefore: string | null
  /** Jobs of this time with a greater id come first, if any. */
  ties: { createdAt: string; id: string } | null
}

export const planSearch = ({ filter, after }: Pick<Parameters<JobStore["searchJobs"]>[0], "filter" | "after">): JobSearch => {
  const { createdBefore, priorityMin, priorityMax } = filter
  const { min, max } = JOB_LIMITS.priority
  const from = Math.max(min, priorityMin ?? min)
  const to = Math.min(max, priorityMax ?? max)
  const endsBeforeCursor = createdBefore !== undefined && (after === undefined || createdBefore <= after.createdAt)
  return {
    priorities: Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i),
    createdBefore: endsBeforeCursor ? createdBefore : (after?.createdAt ?? null),
    ties: endsBeforeCursor ? null : (after ?? null),
  }
}
