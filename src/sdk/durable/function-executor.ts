// The executor of a program's own functions: handlers of tasks run once, durable functions are replayed.

import type { AttemptResult, Output } from "../../core/model/change.ts"
import { type AnyFunction, FUNCTION_EXECUTOR, type FunctionContext } from "../../core/model/function.ts"
import { type AttemptId, rowOf, type RunId } from "../../core/model/ids.ts"
import { isObject, type Json } from "../../core/model/json.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../../executors/executor.ts"
import { inputValue } from "../../executors/input.ts"
import { InProcessExecutor } from "../../executors/node/in-process.ts"
import { AttemptOutput, failureOf, storeOutput } from "../../executors/pool/attempt-output.ts"
import { ErrorReport, jsonOf } from "../../executors/node/function-result.ts"
import { createLog } from "../../executors/node/context.ts"
import type { FunctionError } from "../../executors/pool/frames.ts"
import { stoppedResult } from "../../executors/stopped.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { FunctionStore } from "../../store/contract/functions.ts"
import type { AnyTask, AnyWorkflow, Definition, TaskContext } from "../definitions.ts"
import { NonDeterminismError } from "../errors.ts"
import { validate } from "../schema.ts"
import { Activation, type ActivationEnd, type ActivationPorts, type Child, type ChildDefinition } from "./activation.ts"
import { Journal, LostFunction } from "./journal.ts"

/** Larger results of steps are objects. */
const INLINE_LIMIT = 64 * 1024

export interface FunctionExecutorOptions extends Pick<ActivationPorts, "newChild" | "childEnd"> {
  definitions: readonly Definition[]
  store: FunctionStore
  objects: ObjectStore
  clock: Clock
  random: Random
  /** Starts the child of a function, unless it exists. */
  startChild(parent: ParentFunction, child: Child, definition: ChildDefinition, input: unknown): Promise<void>
}

export interface ParentFunction {
  runId: RunId
  row: number
  task: string
}

export class FunctionExecutor implements Executor {
  readonly name = FUNCTION_EXECUTOR
  readonly folderless = true
  readonly #options: FunctionExecutorOptions
  readonly #journal: Journal
  readonly #tasks: InProcessExecutor
  readonly #workflows: ReadonlyMap<string, AnyWorkflow>

  constructor(options: FunctionExecutorOptions) {
    const { definitions, store, objects, clock } = options
    this.#options = options
    this.#journal = new Journal(store)
    const tasks = definitions.filter((definition): definition is AnyTask => definition.kind === "task")
    const functions = new Map(tasks.map((task) => [task.name, handlerOf(task)]))
    this.#tasks = new InProcessExecutor({
      name: FUNCTION_EXECUTOR,
      functions,
      nameOf: (node) => node.function ?? "",
      objects,
      clock,
    })
    this.#workflows = new Map(
      definitions.flatMap((definition) => (definition.kind === "workflow" ? [[definition.name, definition]] : [])),
    )
  }

  launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const workflow = this.#workflows.get(assignment.node.function ?? "")
    return workflow === undefined
      ? this.#tasks.launch(withOwnInput(assignment), context)
      : this.#activate(workflow, assignment, context)
  }

  /** Returns the input that the function of a task gets. */
  async inputOf(assignment: Assignment): Promise<unknown> {
    const called = this.#options.definitions.find(({ name }) => name === assignment.node.function)
    const { input } = withOwnInput(assignment)
    return called === undefined ? input : await validate(called.schema, input, `the input of ${called.name}`)
  }

  async #activate(workflow: AnyWorkflow, assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { clock, objects } = this.#options
    const { signal } = context
    const startedAt = clock.now()
    context.started({ at: startedAt, externalId: String(process.pid) })
    const output = new AttemptOutput(objects, assignment, context)
    const row = rowOf(assignment.taskId)
    const base = (): Pick<AttemptResult, "startedAt" | "finishedAt"> => ({ startedAt, finishedAt: clock.now() })
    try {
      const input = await validate(workflow.schema, await inputValue(assignment), `the input of ${workflow.name}`)
      const state = await this.#journal.load(row)
      const activation = new Activation(assignment.runId, state, this.#ports(assignment, row, output, signal))
      const end = await untilAborted(
        activation.start((step) => workflow.handler(input as never, step)),
        signal,
        clock,
        assignment.graceMs,
      )
      if (end === null) return stoppedResult(signal.reason as StopReason, { ...base() }, assignment)
      if (end.kind === "suspended") {
        const { message, delayMs } = end
        return { ...base(), state: "success", suspended: { message, delayMs, seenRequests: state.resumeRequests } }
      }
      if (end.kind === "threw") return await this.#failure(end.error, assignment, output, { ...base() }, signal)
      await activation.flush()
      const stored = await storeOutput(objects, Buffer.from(jsonOf(end.value, assignment.maxOutputBytes)), assignment)
      return "error" in stored
        ? { ...base(), state: "failed", error: stored.error }
        : { ...base(), state: "success", output: stored.output }
    } catch (error) {
      return await this.#failure(error, assignment, output, { ...base() }, signal)
    } finally {
      await output.close()
    }
  }

  async #failure(
    error: unknown,
    assignment: Assignment,
    output: AttemptOutput,
    base: Pick<AttemptResult, "startedAt" | "finishedAt">,
    signal: AbortSignal,
  ): Promise<AttemptResult> {
    if (signal.aborted) return stoppedResult(signal.reason as StopReason, base, assignment)
    if (error instanceof LostFunction) return { ...base, state: "lost", error: error.message }
    const report = new ErrorReport(error)
    await output.output("stderr", `${report.stack}\n`)
    const failure = failureOf(JSON.parse(report.json) as FunctionError, assignment.secrets)
    return { ...base, ...failure, ...(error instanceof NonDeterminismError && { retryable: false }) }
  }

  #ports(assignment: Assignment, row: number, output: AttemptOutput, signal: AbortSignal): ActivationPorts {
    const { clock, random, objects, newChild, startChild, childEnd } = this.#options
    const attemptId = assignment.attemptId as AttemptId
    const parent = { runId: assignment.runId as RunId, row, task: assignment.task }
    return {
      clock,
      random,
      signal,
      log: createLog((stream, text) => void output.output(stream, text)),
      record: (steps) => this.#journal.record(steps.map((step) => ({ ...step, row, attemptId }))),
      readOutput: (stored) => readOutput(objects, stored),
      writeOutput: async ({ name, occurrence }, value) => {
        const text = JSON.stringify(value)
        if (text.length <= INLINE_LIMIT) return { inline: value }
        const key = `${assignment.prefix}steps/${encodeURIComponent(name)}-${occurrence}.json`
        const bytes = Buffer.from(text)
        await objects.put(key, bytes)
        return { key, bytes: bytes.length }
      },
      newChild,
      startChild: (child, definition, input) => startChild(parent, child, definition, input),
      childEnd,
    }
  }
}

/** Leaves the item and the outputs of upstream tasks out of an input that the task declares: its schema may reject other fields. */
const withOwnInput = (assignment: Assignment): Assignment => {
  const { node, input } = assignment
  if (node.input === undefined || !("map" in node.input) || !isObject(input)) return assignment
  return { ...assignment, input: Object.fromEntries(Object.keys(node.input.map).map((key) => [key, input[key] ?? null])) }
}

/** Validates the input again: it may have been enqueued by other code, and the handler gets the schema's output. */
const handlerOf =
  ({ name, schema, handler }: AnyTask): AnyFunction =>
  async (input: unknown, context: FunctionContext): Promise<unknown> => {
    const checked: unknown = await validate(schema, input, `the input of ${name}`)
    return await handler(checked as never, new HandlerContext(context))
  }

/** A class, because getters on a shared prototype cost less than copies. */
class HandlerContext implements TaskContext {
  readonly #context: FunctionContext
  readonly id: string
  readonly attempt: number

  constructor(context: FunctionContext) {
    this.#context = context
    this.id = context.runId
    this.attempt = context.attempt
  }

  get signal(): AbortSignal {
    return this.#context.signal
  }

  get log(): TaskContext["log"] {
    return this.#context.log
  }

  get progress(): TaskContext["progress"] {
    return this.#context.progress
  }

  get heartbeat(): TaskContext["heartbeat"] {
    return this.#context.heartbeat
  }
}

const readOutput = async (objects: ObjectStore, output: Output): Promise<Json> => {
  if ("inline" in output) return output.inline
  const bytes = await objects.get(output.key)
  if (bytes === null) throw new Error(`the result ${output.key} is gone from the object store`)
  return JSON.parse(Buffer.from(bytes).toString("utf8")) as Json
}

/** Resolves with null when the function has not ended within the grace period of a stop. */
const untilAborted = async (
  running: Promise<ActivationEnd>,
  signal: AbortSignal,
  clock: Clock,
  graceMs: number,
): Promise<ActivationEnd | null> => {
  const graceOver = Promise.withResolvers<null>()
  let cancel = (): void => {}
  const onAbort = (): void => {
    cancel = clock.after(graceMs, () => graceOver.resolve(null))
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener("abort", onAbort, { once: true })
  const end = await Promise.race([running, graceOver.promise])
  cancel()
  signal.removeEventListener("abort", onAbort)
  return end
}
