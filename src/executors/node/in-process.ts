// Runs functions in this process, for a program that contains a worker (`startWorker`). A stop only aborts the function's
// signal: a function that does not end within the grace period keeps running, and its attempt ends without it.

import type { AttemptResult } from "../../core/model/change.ts"
import type { AnyFunction } from "../../core/model/function.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type Environment, orkVariables } from "../environment.ts"
import { type Assignment, type Executor, type LaunchContext, type Stop, stopOfLaunch } from "../executor.ts"
import { inputValue } from "../input.ts"
import { AttemptOutput, failureOf, storeOutputText } from "../pool/attempt-output.ts"
import { taskInfoOf, type FunctionError } from "../pool/frames.ts"
import { type StartedProcess, resultBase } from "../process/result.ts"
import { stoppedResult } from "../stopped.ts"
import { ErrorReport, jsonOf } from "./function-result.ts"
import { type ContextPorts, stopError, TaskContext } from "./context.ts"
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

const PROCESS_ID = String(process.pid)

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
    if (call === undefined) {
      const error = unknownFunction(name, functions.keys(), "here")
      return { ...resultBase(null, clock.now()), state: "failed", error, retryable: false }
    }
    const stop = stopOfLaunch(context)
    if (stop.reason !== null) return stoppedResult(stop.reason, resultBase(null, clock.now()), assignment)
    const started: StartedProcess = { at: clock.now(), externalId: PROCESS_ID }
    context.started(started)
    const output = new AttemptOutput(objects, assignment, context)
    const ports = new FunctionPorts(assignment, output)
    const task = new TaskContext(taskInfoOf(assignment), ports)
    const end = await new Promise<FunctionEnd | null>((resolve) => {
      ports.onStop(stop, () => clock.after(assignment.graceMs, () => resolve(null)))
      void perform(call, assignment, task, resolve)
    })
    task.end()
    ports.end()
    const { reason } = stop
    if (end === null) await output.output("stderr", STILL_RUNNING)
    else if ("error" in end) await output.output("stderr", `${end.error.stack}\n`)
    const logProblem = output.isUsed ? await output.close() : null
    const base = resultBase(started, clock.now())
    if (end === null || reason !== null) return stoppedResult(reason!, base, assignment)
    if (logProblem !== null) return { ...base, state: "failed", error: `its log could not be stored: ${logProblem}` }
    if ("error" in end) return { ...base, ...failureOf(JSON.parse(end.error.json) as FunctionError, assignment.secrets) }
    const storing = storeOutputText(objects, end.json, assignment)
    const stored = storing instanceof Promise ? await storing : storing
    return "error" in stored
      ? { ...base, state: "failed", error: stored.error }
      : { ...base, state: "success", output: stored.output }
  }
}

/**
 * Creates the tools of a function on first use, because most functions use none. Ignores what the function writes after the end of its
 * attempt.
 */
class FunctionPorts implements ContextPorts {
  readonly #assignment: Assignment
  readonly #output: AttemptOutput
  #abort: AbortController | null = null
  #aborted = false
  #ended = false
  #removeListener: (() => void) | null = null
  #cancelGrace: (() => void) | null = null

  constructor(assignment: Assignment, output: AttemptOutput) {
    this.#assignment = assignment
    this.#output = output
  }

  get env(): Environment {
    const { env, upstreamDir } = this.#assignment
    return { ...env, ...orkVariables(this.#assignment, { inputPath: null, outputPath: null, upstreamDir }) }
  }

  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new AbortController()
      if (this.#aborted) this.#abort.abort(stopError())
    }
    return this.#abort.signal
  }

  progress(...update: Parameters<ContextPorts["progress"]>): void {
    if (!this.#ended) this.#output.progress(...update)
  }

  write(...text: Parameters<ContextPorts["write"]>): void {
    if (!this.#ended) void this.#output.output(...text)
  }

  /** Aborts the signal at a stop, and then begins the grace period. */
  onStop(stop: Stop, beginGrace: () => () => void): void {
    this.#removeListener = stop.onStop(() => {
      this.#aborted = true
      this.#abort?.abort(stopError())
      this.#cancelGrace = beginGrace()
    })
  }

  end(): void {
    this.#ended = true
    this.#cancelGrace?.()
    this.#removeListener?.()
  }
}

const perform = async (
  call: AnyFunction,
  assignment: Assignment,
  task: TaskContext,
  ended: (end: FunctionEnd) => void,
): Promise<void> => {
  try {
    const input = assignment.inputFiles === undefined ? assignment.input : await inputValue(assignment)
    ended({ json: jsonOf(await call(input, task), assignment.maxOutputBytes) })
  } catch (error) {
    ended({ error: new ErrorReport(error) })
  }
}
