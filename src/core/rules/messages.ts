// Error texts that the stores write into rows.

import { MAIN_TASK } from "../model/function.ts"
import { formatDuration } from "../values/quantities.ts"

export const timedOut = (ms: number | undefined): string =>
  ms === undefined ? "timed out" : `timed out after ${formatDuration(ms)}`

export const taskFailed = (name: string): string => `task ${name} failed`

/** Error of the run of a function. Its task has the error of the function. */
export const FUNCTION_FAILED = taskFailed(MAIN_TASK)

export const blockedBy = (dependency: string): string => `dependency ${dependency} did not complete`

export const JOB_CANCELLED = "cancelled"

/** Error of a job that did not start in time. */
export const JOB_EXPIRED = "expired"
