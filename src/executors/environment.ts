// The ORK_* variables of a task, and the limits of systems for variables and arguments.

import type { TaskVariable } from "../core/model/task-variables.ts"
import type { Assignment } from "./executor.ts"

/** Limit of a variable. Linux rejects more than 128 KiB, with an error that does not name the variable. */
const MAX_VALUE_BYTES = 100 * 1024

/** Limit of arguments and environment together, in characters. Linux accepts about 2 MiB. */
const MAX_TOTAL = 4 << 20

export const ATTEMPT_VARIABLE = "ORK_ATTEMPT_ID"

export type Environment = { [name: string]: string }

/** Paths as the task sees them; null for those that it does not have. */
export interface TaskPaths {
  inputPath: string | null
  outputPath: string | null
  upstreamDir: string | null
  artifactsDir?: string | undefined
}

export const orkVariables = (assignment: Assignment, paths: TaskPaths): Environment => {
  const env: { [name in TaskVariable]?: string } = {}
  env["ORK_RUN_ID"] = assignment.runId
  env["ORK_TASK_ID"] = assignment.taskId
  env["ORK_TASK_NAME"] = assignment.task
  env["ORK_WORKFLOW_NAME"] = assignment.workflow
  env["ORK_ATTEMPT"] = String(assignment.attempt)
  if (paths.inputPath !== null) env["ORK_INPUT"] = paths.inputPath
  if (paths.outputPath !== null) env["ORK_OUTPUT"] = paths.outputPath
  env[ATTEMPT_VARIABLE] = assignment.attemptId
  if (assignment.parallelIndex !== null) env["ORK_PARALLEL_INDEX"] = String(assignment.parallelIndex)
  if (assignment.parallelCount !== null) env["ORK_PARALLEL_COUNT"] = String(assignment.parallelCount)
  if (assignment.logicalDate !== null) env["ORK_LOGICAL_DATE"] = assignment.logicalDate
  if (paths.upstreamDir !== null) env["ORK_UPSTREAM"] = paths.upstreamDir
  if (paths.artifactsDir !== undefined) env["ORK_ARTIFACTS"] = paths.artifactsDir
  return { ...env, ...assignment.callback?.() }
}

/** Returns why a task's variables (NAME=value) and arguments cannot be used; null when they can. */
export const environmentProblem = (env: string[], argv: string[]): string | null => {
  for (const entry of env) {
    const at = entry.indexOf("=")
    const name = entry.slice(0, at)
    if (at <= 0) return `invalid name of an environment variable: ${JSON.stringify(name)}`
    if (entry.includes("\0")) return `the environment variable ${name} contains a NUL character, which no system allows`
    const bytes = entry.length * 3 > MAX_VALUE_BYTES ? Buffer.byteLength(entry) - at - 1 : 0
    if (bytes > MAX_VALUE_BYTES) {
      return `the environment variable ${name} is ${bytes} bytes long, and the limit is ${MAX_VALUE_BYTES}: pass it as input instead`
    }
  }
  const total = env.concat(argv).reduce((sum, text) => sum + text.length, 0)
  if (total > MAX_TOTAL)
    return `the command and its environment are ${total} characters long: pass large values as input instead`
  const bad = argv.findIndex((argument) => argument.includes("\0"))
  return bad < 0 ? null : `argument ${bad} of the command contains a NUL character, which no system allows`
}
