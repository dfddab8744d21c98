// Statuses of runs, tasks and attempts, and which of them are final. Drawn in docs/architecture.md.

// The event log stores indexes in the lists of statuses of runs and tasks: they are append-only.
export const RUN_STATUSES = ["pending", "running", "success", "failed", "cancelled"] as const
export type RunStatus = (typeof RUN_STATUSES)[number]

export const TASK_STATUSES = ["pending", "dispatched", "running", "success", "failed", "skipped", "cancelled"] as const
export type TaskStatus = (typeof TASK_STATUSES)[number]

/** Status of a finished task. */
export type FinalStatus = Extract<TaskStatus, "success" | "failed" | "skipped" | "cancelled">

/** State of a finished attempt. `lost`: the lease holder died. */
export const ATTEMPT_STATES = ["success", "failed", "timeout", "lost", "cancelled"] as const
export type AttemptState = (typeof ATTEMPT_STATES)[number]

const TASK_FINISHED = {
  pending: false,
  dispatched: false,
  running: false,
  success: true,
  failed: true,
  skipped: true,
  cancelled: true,
} as const satisfies Record<TaskStatus, boolean>

const RUN_CLOSED = {
  pending: false,
  running: false,
  success: true,
  failed: true,
  cancelled: true,
} as const satisfies Record<RunStatus, boolean>

export const isTaskFinished = (status: TaskStatus): status is FinalStatus => TASK_FINISHED[status]
export const isRunClosed = (status: RunStatus): boolean => RUN_CLOSED[status]

/**
 * Outcome of an upstream task as the tasks below it count it. `unmet`: skipped because a task above it failed, counts as a failure.
 * `waived`: skipped by its own `if`, or by its rule without any failure above it.
 */
export type UpstreamOutcome = "success" | "failed" | "unmet" | "waived"

export type SkipReason = Extract<UpstreamOutcome, "unmet" | "waived">

export const upstreamOutcome = (status: FinalStatus, skip: SkipReason | null): UpstreamOutcome => {
  switch (status) {
    case "success":
      return "success"
    case "failed":
    case "cancelled":
      return "failed"
    case "skipped":
      return skip ?? "waived"
    default:
      return status satisfies never
  }
}
