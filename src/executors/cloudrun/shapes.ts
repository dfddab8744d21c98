// Jobs, executions and their states as the API shows them: what is read of them here.

import type { protos } from "@google-cloud/run"
import { ATTEMPT_VARIABLE } from "../environment.ts"

export type Execution = protos.google.cloud.run.v2.IExecution
export type Task = protos.google.cloud.run.v2.ITask
export type RunRequest = protos.google.cloud.run.v2.IRunJobRequest

/** `projects/P/locations/R/jobs/J` */
export type JobName = string
/** The job's name, then `/executions/E`. */
export type ExecutionName = string

/** Of either. */
export const partsOf = (name: ExecutionName) => {
  const [, project = "", , region = "", , job = "", , execution = ""] = name.split("/")
  return { project, region, job, execution }
}

/** Between the clocks of the server and Google, at the most. */
export const SKEW_MS = 300_000

/** The last part of its name. The rest may come back with the project's number in place of its id. */
export const idOf = ({ name }: Execution): string => name?.slice(name.lastIndexOf("/") + 1) ?? ""

/** Which attempt it was started for; null: not by Ork. */
export const attemptOf = (execution: Execution): string | null => {
  for (const { env } of execution.template?.containers ?? []) {
    const found = env?.find(({ name }) => name === ATTEMPT_VARIABLE)
    if (found?.value) return found.value
  }
  return null
}

export const instantOf = (time: protos.google.protobuf.ITimestamp | null | undefined): number | null =>
  time === null || time === undefined ? null : Number(time.seconds ?? 0) * 1000 + Math.floor((time.nanos ?? 0) / 1e6)

/** The page of the console that leads to what it wrote. */
export const logLink = (name: ExecutionName, { logUri }: Execution): string => {
  if (logUri) return logUri
  const { project, region, execution } = partsOf(name)
  return `https://console.cloud.google.com/run/jobs/executions/details/${region}/${execution}/logs?project=${project}`
}
