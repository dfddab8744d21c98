// What a commit tells: one event for each change of the status of a run, a task or a job, in order, and what is new of a task
// that goes on.

import type { RunId } from "../../core/model/ids.ts"
import type { JobStatus } from "../../core/rules/jobs.ts"
import type { Json } from "../../core/model/json.ts"
import type { RunStatus, TaskStatus } from "../../core/model/status.ts"
import type { WaitingView } from "../../core/model/waiting-on.ts"

export type StoreEvent = EventFields &
  ({ type: "run" | "task"; jobId?: string; status: RunStatus | TaskStatus } | { type: "job"; jobId: string; status: JobStatus })

interface EventFields {
  /** Empty for jobs. */
  runId: RunId
  task?: string
  path?: string
  attempt?: number
  /** ISO instant. */
  at: string
  error?: string
  /** Set for a pending task, or a job, that waits for its retry. */
  availableAt?: string
  /** Set for a fan whose instances were made: how many there are in all. The path is the fan's own. */
  total?: number
  /** Set for a task that goes on without a slot. */
  waiting?: WaitingView
  progress?: Progress
}

export interface Progress {
  /** 0 to 1. */
  fraction: number | null
  details: Json
}
