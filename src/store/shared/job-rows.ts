// How jobs lie in the tables of tasks, alike on both backends: rows without a run, whose path is the job's id.

import type { JobStatus } from "../../core/rules/jobs.ts"
import { handlerLane, workLane } from "../../core/routing/lanes.ts"
import type { Limit } from "../../core/model/row.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import type { NewJob } from "../contract/jobs.ts"

/** `run_seq` of job rows, which belong to no run. */
const JOB_RUN_SEQ = 0

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

/** The status of a job whose dependencies are done, by its row's; before that a pending one is PENDING. */
export const jobStatus = (row: TaskStatus): JobStatus => STATUS[row]

const nameOf = (name: unknown): string => (typeof name === "string" ? name : "")

/** One without a task of its own waits for a handler of its queue. */
export const jobLane = ({ queue, task }: Pick<NewJob, "queue" | "task">): string =>
  task === null
    ? handlerLane(queue)
    : workLane(
        { id: "", private: false },
        { queue, labels: [], executor: nameOf(task["executor"]), function: nameOf(task["function"]) },
      )

/** Jobs of one queue with the same key run one at a time. */
export const jobLimits = ({ queue, concurrencyKey }: Pick<NewJob, "queue" | "concurrencyKey">): Limit[] =>
  concurrencyKey === null ? [] : [{ key: `k:job:${queue}:${concurrencyKey}`, cap: 1 }]
