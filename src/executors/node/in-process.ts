// Runs functions in this process, for a program that contains a worker (`startWorker`). A stop only aborts the function's
// signal: a function that does not end within the grace period keeps running, and its attempt ends without it.

import type { AttemptResult } from "../../core/model/change.ts"
import type { AnyFunction } from "../../core/model/function.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { orkVariables } from "../environment.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { inputValue } from "../input.ts"
import { AttemptOutput, failureOf, storeOutput } from "../pool/attempt-output.ts"
import { taskInfoOf, type FunctionError } from "../pool/frames.ts"
import { type StartedProcess, resultBase } from "../process/result.ts"
import { stoppedResult } from "../stopped.ts"
import { ErrorReport, jsonOf } from "./function-result.ts"
import { stopError, TaskContext } from "./context.ts"
import { unknownFunction } from "../registry.ts"

export interface InProcessOptions {
  name: string
  functions: ReadonlyMap<string, AnyFunction>
  /** Returns the name of the function that a task calls. */
  nameOf(node: Node): string
  objects: ObjectStore
  clock: Clock
}

type FunctionEnd = { json: string } | { error: ErrorReport }

const STILL_RUNNING = "ork: the function did not end when it was stopped, and keeps running in its process\n"

export class InProcessExecutor implements Executor {
  readonly name: string
  readonly folderless = true
  readonly #options: InProcessOptions

  constructor(options: InProcessOptions) {
    this.name = options.name
    this.#options = options
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { functions, nameOf, clock, objects } = this.#options
    const name = nameOf(assignment.node)
    const call = functions.get(name)
    const notStarted = resultBase(null, clock.now())
    if (call === undefined) {
      return { ...notStarted, state: "failed", error: unknownFunction(name, functions.keys(), "here"), retryable: false }
    }
    const { signal } = context
    if (signal.aborted) return stoppedResult(signal.reason as StopReason, notStarted, assignment)
    const started: StartedProcess = { at: clock.now(), externalId: String(process.pid) }
    context.started(started)
    const output = new AttemptOutput(objects, assignment, context)
    const { end, stopped } = await this.#run(call, assignment, output, signal)
    if (end === null) await output.output("stderr", STILL_RUNNING)
    else if ("error" in end) await output.output("stderr", `${end.error.stack}\n`)
    const logProblem = await output.close()
    const base = resultBase(started, clock.now())
    if (end === null || stopped) return stoppedResult(signal.reason as StopReason, base, assignment)
    if (logProblem !== null) return { ...base, state: "failed", error: `its log could not be stored: ${logProblem}` }
    if ("error" in end) return { ...base, ...failureOf(JSON.parse(end.error.json) as FunctionError, assignment.secrets) }
    const stored = await storeOutput(objects, Buffer.from(end.json), assignment)
    return "error" in stored
      ? { ...base, state: "failed", error: stored.error }
      : { ...base, state: "success", output: stored.output }
  }

  /** Calls the function. `end` is null when it has not ended within the grace period of a stop. */
  async #run(
    call: AnyFunction,
    assignment: Assignment,
    output: AttemptOutput,
    signal: AbortSignal,
  ): Promise<{ end: FunctionEnd | null; stopped: boolean }> {
    const abort = new AbortController()
    let ended = false
    const paths = { inputPath: null, outputPath: null, upstreamDir: assignment.upstreamDir }
    const env = { ...assignment.env, ...orkVariables(assignment, paths) }
    // Ignores what a function writes after the end of its attempt.
    const task = new TaskContext(taskInfoOf(assignment), env, {
      progress: (update) => void (ended || output.progress(update)),
      write: (stream, text) => void (ended || output.output(stream, text)),
      signal: () => abort.signal,
    })
    const graceOver = Promise.withResolvers<null>()
    let cancelTimer = (): void => {}
    const onAbort = (): void => {
      abort.abort(stopError())
      cancelTimer = this.#options.clock.after(assignment.graceMs, () => graceOver.resolve(null))
    }
    signal.addEventListener("abort", onAbort, { once: true })
    const end = await Promise.race([perform(call, assignment, task), graceOver.promise])
    cancelTimer()
    signal.removeEventListener("abort", onAbort)
    task.end()
    ended = true
    return { end, stopped: abort.signal.aborted }
  }
}

const perform = async (call: AnyFunction, assignment: Assignment, task: TaskContext): Promise<FunctionEnd> => {
  try {
    return { json: jsonOf(await call(await inputValue(assignment), task), assignment.maxOutputBytes) }
  } catch (error) {
    return { error: new ErrorReport(error) }
  }
}
