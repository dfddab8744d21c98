// `ork exec --file`: calls a function inside a container or job that gets its input, output and log like a command: by $ORK_INPUT,
// $ORK_OUTPUT and the standard streams.

import { readFile, writeFile } from "node:fs/promises"
import { bareNode } from "../../core/model/bare-node.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import { languageOf } from "../../core/model/function.ts"
import type { Json } from "../../core/values/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import { AttemptRunner, StopSignal } from "../../engine/attempts/attempt-runner.ts"
import type { Assignment, Executor } from "../../executors/executor.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { readOutputObject } from "../../objects/shared/read-object.ts"

export interface CallOptions {
  /** Relative to `cwd`. */
  file: string
  function: string | undefined
  executors: ReadonlyMap<string, Executor>
  /** Holds the log and the output until they are copied. */
  objects: ObjectStore
  clock: Clock
  env: { [name: string]: string | undefined }
  cwd: string
  graceMs: number
  maxOutputBytes: number
  /** Aborts when this process received a signal to end. */
  stopped: AbortSignal
  print(stream: "stdout" | "stderr", line: string): void
}

const PREFIX = "exec/"

export const callFunction = async (options: CallOptions): Promise<AttemptResult> => {
  const { executors, clock, objects, env, stopped } = options
  const runner = new AttemptRunner({ executors, clock })
  const assignment = await assignmentOf(options)
  const executor = executors.get(assignment.node.executor)
  const stop = new StopSignal()
  const onStopped = (): void => stop.stop("shutdown")
  stopped.addEventListener("abort", onStopped)
  const ended = new AbortController()
  const printed = printLog(options, ended.signal)
  try {
    await executor?.start?.()
    if (stopped.aborted) onStopped()
    const result = await runner.run(assignment, stop, { started: () => {}, progress: () => {} })
    const { output = { inline: null } } = result
    const text = "inline" in output ? JSON.stringify(output.inline) : readOutputObject(objects, output.key)
    if (result.state === "success" && env["ORK_OUTPUT"] !== undefined) await writeFile(env["ORK_OUTPUT"], text)
    return result
  } finally {
    stopped.removeEventListener("abort", onStopped)
    ended.abort()
    await printed
    await executor?.stop?.()
  }
}

const printLog = async ({ objects, print }: CallOptions, ended: AbortSignal): Promise<void> => {
  for await (const { stream, line } of new TaskLog(objects, PREFIX).lines({ ended })) print(stream, line)
}

const assignmentOf = async ({ file, function: name, env, cwd, graceMs, maxOutputBytes }: CallOptions): Promise<Assignment> => {
  const variable = (key: string): string => env[`ORK_${key}`] ?? ""
  const numberOrNull = (key: string): number | null => (variable(key) === "" ? null : Number(variable(key)))
  const inputFile = variable("INPUT")
  return {
    runId: variable("RUN_ID"),
    taskId: variable("TASK_ID"),
    attemptId: variable("ATTEMPT_ID") || "exec",
    attempt: Number(variable("ATTEMPT")) || 1,
    workflow: variable("WORKFLOW_NAME"),
    task: variable("TASK_NAME"),
    path: "",
    parallelIndex: numberOrNull("PARALLEL_INDEX"),
    parallelCount: numberOrNull("PARALLEL_COUNT"),
    logicalDate: variable("LOGICAL_DATE") || null,
    node: bareNode({
      name: variable("TASK_NAME") || "exec",
      executor: languageOf(file) ?? "",
      timeoutMs: null,
      file,
      ...(name !== undefined && { function: name }),
    }),
    input: inputFile === "" ? null : (JSON.parse(await readFile(inputFile, "utf8")) as Json),
    fields: {},
    command: null,
    env: Object.fromEntries(Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]]))),
    baseDir: cwd,
    workingDir: cwd,
    upstreamDir: variable("UPSTREAM") || null,
    ...(variable("ARTIFACTS") !== "" && { artifactsDir: variable("ARTIFACTS") }),
    prefix: PREFIX,
    maxOutputBytes,
    graceMs,
    secrets: [],
  }
}
