// Events of tasks and jobs, built field by field: stores emit three for every task.

import type { RunId } from "../../core/model/ids.ts"
import { queueOfLane } from "../../core/routing/lanes.ts"
import type { JobStatus } from "../../core/rules/jobs/jobs.ts"
import { NO_RUN } from "./event-codec.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import type { WaitingView } from "../../core/model/waiting-on.ts"
import type { Progress, StoreEvent } from "../contract/store.ts"

export interface TaskEvent {
  status: TaskStatus
  at: string
  attempt: number
  error?: string | null | undefined
  availableAt?: string | undefined
  total?: number
  waiting?: WaitingView
  progress?: Progress
}

export const taskEvent = (
  { runId, task, path }: { runId: RunId; task: string; path: string },
  change: TaskEvent,
): StoreEvent => {
  const { attempt, status, at, error, availableAt, total, waiting, progress } = change
  const event: StoreEvent = { type: "task", runId, task, path, attempt, status, at }
  if (error !== undefined && error !== null) event.error = error
  if (availableAt !== undefined) event.availableAt = availableAt
  if (total !== undefined) event.total = total
  if (waiting !== undefined) event.waiting = waiting
  if (progress !== undefined) event.progress = progress
  return event
}

export interface JobEvent {
  at: string
  error?: string | null | undefined
  availableAt?: string | null | undefined
  progress?: Progress | undefined
}

/** The job of an event. */
export interface EventJob {
  id: string
  name: string
  queue: string
}

/** The queue of the lane that was asked for last: jobs of a batch mostly share theirs. */
let lastQueue = { lane: "", queue: "" }

const queueOf = (lane: string): string => {
  if (lane !== lastQueue.lane) lastQueue = { lane, queue: queueOfLane(lane) ?? "" }
  return lastQueue.queue
}

/** Returns the job of its row of `tasks`, whose path is the id. */
export const jobOfRow = ({ path, jobName, lane }: { path: string; jobName?: string | null; lane?: string }): EventJob => ({
  id: path,
  name: jobName ?? "",
  queue: queueOf(lane ?? ""),
})

export const jobEvent = (job: EventJob, status: JobStatus, { at, error, availableAt, progress }: JobEvent): StoreEvent => {
  const { id: jobId, name, queue } = job
  const event: StoreEvent = { type: "job", runId: NO_RUN, jobId, name, queue, status, at }
  if (error !== undefined && error !== null) event.error = error
  if (availableAt !== undefined && availableAt !== null) event.availableAt = availableAt
  if (progress !== undefined) event.progress = progress
  return event
}
