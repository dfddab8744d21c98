// What tells a task about itself, wherever it runs, and the limits that systems set to variables and arguments.

import type { Assignment } from "./executor.ts"

/** Linux refuses more than 128 KiB in one variable, with an error that names none. */
const MAX_VALUE_BYTES = 100 * 1024

/** Linux takes about 2 MiB of arguments and environment together. */
const MAX_TOTAL = 4 << 20

export const ATTEMPT_VARIABLE = "ORK_ATTEMPT_ID"

export type Environment = { [name: string]: string }

/** As the task sees them. */
export interface TaskPaths {
  /** null: it gets its input and gives its output in another way. */
  inputPath: string | null
  outputPath: string | null
  /** null: there are none. */
  upstreamDir: string | null
}

export const orkVariables = (assignment: Assignment, places: TaskPaths): Environment => {
  const env: Environment = {}
  env["ORK_RUN_ID"] = assignment.runId
  env["ORK_TASK_ID"] = assignment.taskId
  env["ORK_TASK_NAME"] = assignment.task
  env["ORK_WORKFLOW_NAME"] = assignment.workflow
  env["ORK_ATTEMPT"] = String(assignment.attempt)
  if (places.inputPath !== null) env["ORK_INPUT"] = places.inputPath
  if (places.outputPath !== null) env["ORK_OUTPUT"] = places.outputPath
  env[ATTEMPT_VARIABLE] = assignment.attemptId
  if (assignment.parallelIndex !== null) env["ORK_PARALLEL_INDEX"] = String(assignment.parallelIndex)
  if (assignment.parallelCount !== null) env["ORK_PARALLEL_COUNT"] = String(assignment.parallelCount)
  if (assignment.logicalDate !== null) env["ORK_LOGICAL_DATE"] = assignment.logicalDate
  if (places.upstreamDir !== null) env["ORK_UPSTREAM"] = places.upstreamDir
  Object.assign(env, assignment.callback?.())
  return env
}

/** What is wrong with a task's variables (NAME=value) and arguments, or null. */
export const environmentProblem = (env: string[], argv: string[]): string | null => {
  for (const entry of env) {
    const at = entry.indexOf("=")
    const name = entry.slice(0, at)
    if (at <= 0) return `bad name of an environment variable: ${JSON.stringify(name)}`
    if (entry.includes("\0")) return `the environment variable ${name} holds a NUL character, which no process can be given`
    const bytes = entry.length * 3 > MAX_VALUE_BYTES ? Buffer.byteLength(entry) - at - 1 : 0
    if (bytes > MAX_VALUE_BYTES) {
      return `the environment variable ${name} is ${bytes} bytes long, the most is ${MAX_VALUE_BYTES}: pass it as input instead`
    }
  }
  const total = env.concat(argv).reduce((sum, text) => sum + text.length, 0)
  if (total > MAX_TOTAL)
    return `the command and its environment are ${total} characters long: pass large values as input instead`
  const bad = argv.findIndex((argument) => argument.includes("\0"))
  return bad < 0 ? null : `argument ${bad} of the command holds a NUL character, which no process can be given`
}
