// Names and fields of jobs and executions that the executor reads, in the JSON of Cloud Run's API.

import { ATTEMPT_VARIABLE } from "../environment.ts"
import type { LeftoverWork } from "../executor.ts"

/** A time such as `2026-01-31T10:00:00.123456Z`. */
type Timestamp = string

interface Variable {
  name: string
  value?: string
}

interface Condition {
  type?: string
  state?: string
  message?: string
  executionReason?: string
}

export interface Execution {
  name?: ExecutionName
  createTime?: Timestamp
  startTime?: Timestamp
  completionTime?: Timestamp
  template?: { containers?: { env?: Variable[] }[] }
  conditions?: Condition[]
  runningCount?: number
  succeededCount?: number
  failedCount?: number
  cancelledCount?: number
  logUri?: string
}

export interface Task {
  lastAttemptResult?: { status?: { message?: string }; exitCode?: number; termSignal?: number }
}

export interface RunRequest {
  name: JobName
  overrides: {
    taskCount: number
    /** A duration such as `600s`. */
    timeout?: string
    containerOverrides: { name?: string; args?: string[]; clearArgs?: boolean; env: Variable[] }[]
  }
}

/** `projects/P/locations/R/jobs/J` */
export type JobName = string
/** `projects/P/locations/R/jobs/J/executions/E` */
export type ExecutionName = string

/** Splits the name of a job or an execution. */
export const partsOf = (name: ExecutionName) => {
  const [, project = "", , region = "", , job = "", , execution = ""] = name.split("/")
  return { project, region, job, execution }
}

/** Largest difference between the clocks of the server and Google that is tolerated. */
export const SKEW_MS = 300_000

/**
 * Returns the last part of the name. The rest is not comparable: responses may have the project's number in place of its id.
 */
export const idOf = ({ name }: Execution): string => name?.slice(name.lastIndexOf("/") + 1) ?? ""

/** Returns the attempt id of an execution; null when Ork did not start it. */
export const attemptOf = (execution: Execution): string | null => variableOf(execution, ATTEMPT_VARIABLE)

/** Returns the attempt of an execution; null when Ork did not start it. */
export const workOf = (execution: Execution): LeftoverWork | null => {
  const attemptId = attemptOf(execution)
  const [runId, taskId] = [variableOf(execution, "ORK_RUN_ID"), variableOf(execution, "ORK_TASK_ID")]
  return attemptId === null || runId === null || taskId === null ? null : { attemptId, runId, taskId }
}

const variableOf = ({ template }: Execution, variable: string): string | null => {
  for (const { env } of template?.containers ?? []) {
    const found = env?.find(({ name }) => name === variable)
    if (found?.value) return found.value
  }
  return null
}

export const instantOf = (time: Timestamp | undefined): number | null => (time === undefined ? null : Date.parse(time))

/** Returns the address of the execution's log in Google's console. */
export const logLink = (name: ExecutionName, { logUri }: Execution): string => {
  if (logUri) return logUri
  const { project, region, execution } = partsOf(name)
  return `https://console.cloud.google.com/run/jobs/executions/details/${region}/${execution}/logs?project=${project}`
}
