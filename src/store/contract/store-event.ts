// Events of a commit: one for each status change of a run, a task or a job, in order, and for the progress of a task.

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
  /** Set for a pending task or job that waits for its retry. */
  availableAt?: string
  /** Set for an expanded fan-out: the number of its instances. */
  total?: number
  /** Set for a task that waits without a slot. */
  waiting?: WaitingView
  progress?: Progress
}

export interface Progress {
  /** 0 to 1. */
  fraction: number | null
  details: Json
}
