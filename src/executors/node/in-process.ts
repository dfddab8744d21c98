// Runs functions in this very process, for a program that holds a worker (`startWorker`). What that means: a function that is stopped
// hears of it by its signal; one that does not end within the grace is left to itself, and its attempt ends without it.

import type { AttemptResult } from "../../core/model/change.ts"
import type { AnyFunction } from "../../core/model/function.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { orkVariables } from "../environment.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { AttemptOutput, failureOf, storeOutput } from "../pool/attempt-output.ts"
import { factsOf, type FunctionError } from "../pool/frames.ts"
import { type StartedProcess, resultBase } from "../process/result.ts"
import { stoppedResult } from "../stopped.ts"
import { ErrorReport, jsonOf } from "./answer.ts"
import { stopError, TaskContext } from "./context.ts"
import { unknownFunction } from "../registry.ts"

export interface InProcessOptions {
  name: string
  functions: ReadonlyMap<string, AnyFunction>
  /** Which of them a task calls. */
  nameOf(node: Node): string
  objects: ObjectStore
  clock: Clock
}

type End = { json: string } | { error: ErrorReport }

const LEFT = "ork: the function did not end when it was stopped; it runs on in its process\n"

export class InProcessExecutor implements Executor {
  readonly name: string
  readonly #options: InProcessOptions

  constructor(options: InProcessOptions) {
    this.name = options.name
    this.#options = options
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { functions, nameOf, clock, objects } = this.#options
    const name = nameOf(assignment.node)
    const call = functions.get(name)
    const unstarted = resultBase(null, clock.now())
    if (call === undefined) {
      return { ...unstarted, state: "failed", error: unknownFunction(name, functions.keys(), "here"), retryable: false }
    }
    const { signal } = context
    if (signal.aborted) return stoppedResult(signal.reason as StopReason, unstarted, assignment)
    const begun: StartedProcess = { at: clock.now(), externalId: String(process.pid) }
    context.started(begun)
    const output = new AttemptOutput(objects, assignment, context)
    const { end, stopped } = await this.#run(call, assignment, output, signal)
    if (end === null) await output.output("stderr", LEFT)
    else if ("error" in end) await output.output("stderr", `${end.error.stack}\n`)
    const problem = await output.close()
    const base = resultBase(begun, clock.now())
    if (end === null || stopped) return stoppedResult(signal.reason as StopReason, base, assignment)
    if (problem !== null) return { ...base, state: "failed", error: `its log could not be stored: ${problem}` }
    if ("error" in end) return { ...base, ...failureOf(JSON.parse(end.error.json) as FunctionError, assignment.secrets) }
    const answer = await storeOutput(objects, Buffer.from(end.json), assignment)
    return "error" in answer
      ? { ...base, state: "failed", error: answer.error }
      : { ...base, state: "success", output: answer.output }
  }

  /** `end` is null for a function that has not ended. */
  async #run(
    call: AnyFunction,
    assignment: Assignment,
    output: AttemptOutput,
    signal: AbortSignal,
  ): Promise<{ end: End | null; stopped: boolean }> {
    const abort = new AbortController()
    let over = false
    const places = { inputPath: null, outputPath: null, upstreamDir: assignment.upstreamDir }
    const env = { ...assignment.env, ...orkVariables(assignment, places) }
    // What a function says after its attempt has ended is said to nobody.
    const task = new TaskContext(factsOf(assignment), env, {
      progress: (update) => void (over || output.progress(update)),
      write: (stream, text) => void (over || output.output(stream, text)),
      signal: () => abort.signal,
    })
    const givenUp = Promise.withResolvers<null>()
    let cancelGrace = (): void => {}
    const onAbort = (): void => {
      abort.abort(stopError())
      cancelGrace = this.#options.clock.after(assignment.graceMs, () => givenUp.resolve(null))
    }
    signal.addEventListener("abort", onAbort, { once: true })
    const end = await Promise.race([perform(call, assignment, task), givenUp.promise])
    cancelGrace()
    signal.removeEventListener("abort", onAbort)
    task.end()
    over = true
    return { end, stopped: abort.signal.aborted }
  }
}

const perform = async (call: AnyFunction, { input, maxOutputBytes }: Assignment, task: TaskContext): Promise<End> => {
  try {
    return { json: jsonOf(await call(input, task), maxOutputBytes) }
  } catch (error) {
    return { error: new ErrorReport(error) }
  }
}
