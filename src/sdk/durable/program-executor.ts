// The executor of a program's own functions: handlers of tasks run once, durable functions are replayed.

import { hash } from "node:crypto"
import { type AttemptResult, type Output } from "../../core/model/change.ts"
import { storeJson } from "../../engine/attempts/outputs.ts"
import { type AnyFunction, FUNCTION_EXECUTOR, type FunctionContext, TX_TASK_STEP } from "../../core/model/function.ts"
import { type AttemptId, type RunId } from "../../core/model/ids.ts"
import { approvalSignal, CANCEL_SIGNAL, type CallStep, type Child } from "../../core/model/function-signals.ts"
import { isObject, type Json } from "../../core/values/json.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../../executors/executor.ts"
import { inputValue } from "../../executors/input.ts"
import { InProcessExecutor } from "../../executors/node/in-process.ts"
import { AttemptOutput, failureOf, storeOutputText } from "../../executors/pool/attempt-output.ts"
import { ErrorReport, jsonOf } from "../../executors/node/function-result.ts"
import { createLog } from "../../executors/node/context.ts"
import type { FunctionError } from "../../executors/pool/frames.ts"
import { stoppedResult } from "../../executors/stopped.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { iso } from "../../core/model/ports.ts"
import type { FunctionState } from "../../store/contract/functions.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { SqlTransaction, TransactionStep } from "../../store/contract/transactions.ts"
import type { AnyTask, AnyWorkflow, Definition, TxTaskContext } from "../definitions.ts"
import { CancelledError, NonDeterminismError, TransactionError } from "../errors.ts"
import { readOutput } from "../embedded/outcomes.ts"
import { validate } from "../schema.ts"
import { toJson } from "../to-json.ts"
import { Activation, type ActivationEnd, type ActivationPorts, type ChildDefinition } from "./activation.ts"
import { isCancelled, isStopped } from "./cancellation.ts"
import { Journal, LostFunction } from "./journal.ts"
import { Transactions } from "./transactions.ts"
import { untilAvailable } from "./until-available.ts"

export interface ProgramExecutorOptions extends Pick<ActivationPorts, "newChild" | "childEnd" | "cancelChild"> {
  definitions: readonly Definition[]
  store: Pick<ServerStore, "loadFunctions" | "recordSteps" | "recordInTransaction" | "sendSignal" | "requestCancel" | "kind">
  objects: ObjectStore
  clock: Clock
  random: Random
  /** Starts the child of a function, unless it exists. */
  startChild(parent: CallingFunction, child: Child, definition: ChildDefinition, input: unknown): Promise<void>
  /** Wakes the engine of this process, which sees requests of other processes by itself. */
  wake(): void
}

/** Repeats a call of the store until the store is available. `ofCode`: errors of a user's code within the call. */
type RetryUntilAvailable = <Value>(call: () => Promise<Value>, ofCode?: ReadonlySet<unknown>) => Promise<Value>

interface ParentFunction {
  runId: RunId
  row: number
  task: string
}

/** A function with the step that starts a child. */
export interface CallingFunction extends ParentFunction {
  step: CallStep
}

export class ProgramExecutor implements Executor {
  readonly name = FUNCTION_EXECUTOR
  readonly folderless = true
  readonly #options: ProgramExecutorOptions
  readonly #journal: Journal
  readonly #transactions: Transactions
  readonly #tasks: InProcessExecutor
  readonly #txTasks: ReadonlyMap<string, AnyTask>
  readonly #workflows: ReadonlyMap<string, AnyWorkflow>

  constructor(options: ProgramExecutorOptions) {
    const { definitions, store } = options
    this.#options = options
    this.#journal = new Journal(store)
    this.#transactions = new Transactions(store, this.#journal)
    const tasks = definitions.filter((definition): definition is AnyTask => definition.kind === "task")
    this.#tasks = this.#inProcess(new Map(tasks.map((task) => [task.functionName, handlerOf(task)])))
    this.#txTasks = new Map(tasks.filter(({ transactional }) => transactional).map((task) => [task.functionName, task]))
    this.#workflows = new Map(
      definitions.flatMap((definition) => (definition.kind === "workflow" ? [[definition.functionName, definition]] : [])),
    )
  }

  #inProcess(functions: ReadonlyMap<string, AnyFunction>): InProcessExecutor {
    const { objects, clock } = this.#options
    return new InProcessExecutor({ name: FUNCTION_EXECUTOR, functions, nameOf: (node) => node.function ?? "", objects, clock })
  }

  launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const name = assignment.node.function ?? ""
    const workflow = this.#workflows.get(name)
    if (workflow !== undefined) return this.#activate(workflow, assignment, context)
    const txTask = this.#txTasks.get(name)
    const tasks =
      txTask === undefined ? this.#tasks : this.#inProcess(new Map([[name, this.#transactionOf(txTask, assignment)]]))
    return tasks.launch(withOwnInput(assignment), context)
  }

  /** Returns the input that the function of a task gets. */
  async inputOf(assignment: Assignment): Promise<unknown> {
    const definition = this.#options.definitions.find(
      (each) => each.kind !== "graph" && each.functionName === assignment.node.function,
    )
    const input = await inputValue(withOwnInput(assignment))
    return definition === undefined ? input : await validate(definition.schema, input, `the input of ${definition.name}`)
  }

  /** Returns a function that runs the handler in a transaction, unless an earlier attempt has committed one. */
  #transactionOf(task: AnyTask, assignment: Assignment): AnyFunction {
    const { clock, objects } = this.#options
    const step: TransactionStep = {
      row: assignment.row!,
      attemptId: assignment.attemptId as AttemptId,
      name: TX_TASK_STEP,
      occurrence: 0,
      position: 0,
      failures: 0,
      startedAt: iso(clock.now()),
    }
    return async (input, context) => {
      const earlier = assignment.attempt === 1 ? null : await this.#transactions.find(step)
      if (earlier !== null) return await readOutput(objects, earlier)
      return await this.#transactions.run(step, {
        run: async (tx) => toJson(await handlerOf(task, tx)(input, context), `the result of task ${task.name}`),
        signal: context.signal,
        readOutput: (output) => readOutput(objects, output),
        writeOutput: (each, value) => writeOutput(objects, assignment, each, value),
      })
    }
  }

  async #activate(workflow: AnyWorkflow, assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { clock, objects } = this.#options
    const startedAt = clock.now()
    context.started({ at: startedAt, externalId: String(process.pid) })
    const output = new AttemptOutput(objects, assignment, context)
    let { signal } = context
    const base = (): Pick<AttemptResult, "startedAt" | "finishedAt"> => ({ startedAt, finishedAt: clock.now() })
    try {
      const input = await validate(workflow.schema, await inputValue(assignment), `the input of ${workflow.name}`)
      for (;;) {
        const graceOver = new AbortController()
        const retryUntilAvailable: RetryUntilAvailable = (call, ofCode = new Set()) =>
          untilAvailable(call, { clock, isStopped: () => isStopped(signal) || graceOver.signal.aborted, ofCode })
        const state = await retryUntilAvailable(() => this.#journal.load(assignment.row!))
        if (await retryUntilAvailable(() => this.#wasAskedToEnd(state, assignment)))
          signal = AbortSignal.abort("cancel" satisfies StopReason)
        const ports = this.#ports(assignment, output, { signal, graceOver: graceOver.signal }, retryUntilAvailable)
        const activation = new Activation(assignment.runId, state, ports)
        const running = activation.start((step) => workflow.handler(input as never, step))
        const end = await untilStopped(running, { signal, graceOver, clock, graceMs: assignment.graceMs })
        if (end === null) return stoppedResult(signal.reason as StopReason, { ...base() }, assignment)
        if (end.kind === "suspended") {
          // The cancel came at the moment of the suspension: the function runs again, and learns of it.
          if (isCancelled(signal)) continue
          const { message, delayMs } = end
          return { ...base(), state: "success", suspended: { message, delayMs, seenRequests: state.resumeRequests } }
        }
        if (end.kind === "threw") return await this.#failure(end.error, assignment, output, { ...base() }, signal)
        await activation.flush()
        const stored = await storeOutputText(objects, jsonOf(end.value, assignment.maxOutputBytes), assignment)
        return "error" in stored
          ? { ...base(), state: "failed", error: stored.error }
          : { ...base(), state: "success", output: stored.output }
      }
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
    if (signal.aborted && !isCancelled(signal)) return stoppedResult(signal.reason as StopReason, base, assignment)
    if (error instanceof LostFunction) return { ...base, state: "lost", error: error.message }
    if (isCancelled(signal) && error instanceof CancelledError) return stoppedResult("cancel", base, assignment)
    const report = new ErrorReport(error)
    await output.output("stderr", `${report.stack}\n`)
    const failure = failureOf(JSON.parse(report.json) as FunctionError, assignment.secrets)
    if (isCancelled(signal)) return { ...stoppedResult("cancel", base, assignment), error: `cancelled; then ${failure.error}` }
    return { ...base, ...failure, ...(error instanceof NonDeterminismError && { retryable: false }) }
  }

  /** Cancels the run of a function that was resumed to end. */
  async #wasAskedToEnd({ signals }: FunctionState, { runId }: Assignment): Promise<boolean> {
    if (!signals.some(({ name }) => name === CANCEL_SIGNAL)) return false
    const { store, wake } = this.#options
    await store.requestCancel(runId as RunId, "cancel").finally(wake)
    return true
  }

  #ports(
    assignment: Assignment,
    output: AttemptOutput,
    stops: Pick<ActivationPorts, "signal" | "graceOver">,
    retryUntilAvailable: RetryUntilAvailable,
  ): ActivationPorts {
    const { clock, random, objects, store, newChild, startChild, childEnd, cancelChild } = this.#options
    const row = assignment.row!
    const attemptId = assignment.attemptId as AttemptId
    const readStored = (stored: Output): Promise<Json> => readOutput(objects, stored)
    const write: ActivationPorts["writeOutput"] = (step, value) => writeOutput(objects, assignment, step, value)
    const parent = { runId: assignment.runId as RunId, row, task: assignment.task }
    return {
      clock,
      random,
      ...stops,
      log: createLog((stream, text) => void output.output(stream, text)),
      record: (steps) => retryUntilAvailable(() => this.#journal.record(steps.map((step) => ({ ...step, row, attemptId })))),
      transact: ({ name, occurrence, position, failures, startedAt }, code, signal) => {
        const ofCode = new Set<unknown>()
        const run: typeof code = (tx) =>
          code(tx).catch((error: unknown) => {
            ofCode.add(error)
            throw error
          })
        const step = { row, attemptId, name, occurrence, position, failures, startedAt }
        const options = { run, signal, readOutput: readStored, writeOutput: write }
        return retryUntilAvailable(() => this.#transactions.run(step, options), ofCode)
      },
      readOutput: readStored,
      writeOutput: write,
      newChild,
      startChild: ({ name, occurrence }, child, definition, input) =>
        retryUntilAvailable(() => startChild({ ...parent, step: { name, occurrence } }, child, definition, input)),
      childEnd: (child) => retryUntilAvailable(() => childEnd(child)),
      cancelChild: (child) => retryUntilAvailable(() => cancelChild(child)),
      answer: (request, answer) =>
        retryUntilAvailable(async () => {
          const signal = approvalSignal(request)
          const outcome = await store.sendSignal({ runId: parent.runId, ...signal, payload: { ...answer } })
          if (outcome === "sent") return answer
          const first = (await this.#journal.load(row)).signals.find(({ name }) => name === signal.name)
          return (first?.payload ?? answer) as typeof answer
        }),
    }
  }
}

/** Leaves the item and the outputs of upstream tasks out of an input that the task declares: its schema may reject other fields. */
const withOwnInput = (assignment: Assignment): Assignment => {
  const { node, input } = assignment
  if (node.input === undefined || !("map" in node.input) || !isObject(input)) return assignment
  const { inputFiles: _, ...own } = assignment
  return { ...own, input: Object.fromEntries(Object.keys(node.input.map).map((key) => [key, input[key] ?? null])) }
}

/** Validates the input again: it may have been enqueued by other code, and the handler gets the schema's output. */
const handlerOf =
  ({ name, schema, handler }: AnyTask, tx: SqlTransaction = NO_TRANSACTION): AnyFunction =>
  (input: unknown, context: FunctionContext): unknown => {
    const run = (checked: unknown): unknown => handler(checked as never, new HandlerContext(context, tx))
    return schema === undefined ? run(input) : validate(schema, input, `the input of ${name}`).then(run)
  }

/** Transaction of a task that has none. */
const NO_TRANSACTION: SqlTransaction = {
  query: () => Promise.reject(new TransactionError("a task has no transaction: declare it with txTask")),
}

/** A class, because getters on a shared prototype cost less than copies. */
class HandlerContext implements TxTaskContext {
  readonly #context: FunctionContext
  readonly tx: SqlTransaction
  readonly id: string
  readonly attempt: number

  constructor(context: FunctionContext, tx: SqlTransaction) {
    this.#context = context
    this.tx = tx
    this.id = context.runId
    this.attempt = context.attempt
  }

  get signal(): AbortSignal {
    return this.#context.signal
  }

  get log(): TxTaskContext["log"] {
    return this.#context.log
  }

  get progress(): TxTaskContext["progress"] {
    return this.#context.progress
  }

  get heartbeat(): TxTaskContext["heartbeat"] {
    return this.#context.heartbeat
  }
}

const writeOutput = (
  objects: ObjectStore,
  { prefix }: Assignment,
  { name, occurrence }: { name: string; occurrence: number },
  value: Json,
): Promise<Output> => storeJson(objects, `${prefix}steps/${fileNameOf(name)}-${occurrence}.json`, value)

/** Longer names, with the rest of a file name, exceed what file systems take. */
const MAX_FILE_NAME = 200

const fileNameOf = (name: string): string => {
  const encoded = encodeURIComponent(name)
  return encoded.length <= MAX_FILE_NAME ? encoded : hash("sha256", name)
}

/** Resolves with null when the function has not ended within the grace period of a stop. */
const untilStopped = async (
  running: Promise<ActivationEnd>,
  { signal, graceOver, clock, graceMs }: { signal: AbortSignal; graceOver: AbortController; clock: Clock; graceMs: number },
): Promise<ActivationEnd | null> => {
  const stopped = Promise.withResolvers<null>()
  let cancel = (): void => {}
  const onAbort = (): void => {
    cancel = clock.after(graceMs, () => {
      graceOver.abort()
      stopped.resolve(null)
    })
  }
  if (signal.aborted) onAbort()
  else signal.addEventListener("abort", onAbort, { once: true })
  const end = await Promise.race([running, stopped.promise])
  cancel()
  signal.removeEventListener("abort", onAbort)
  return end
}
