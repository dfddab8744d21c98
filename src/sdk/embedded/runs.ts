// Runs of the durable functions and graphs of a program: creates, finds and lists them, and returns them as work.

import { newRunId, type RunId } from "../../core/model/ids.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { MAIN_TASK } from "../../core/model/function.ts"
import { FUNCTION_FAILED } from "../../core/rules/messages.ts"
import type { Engine } from "../../engine/engine.ts"
import { planStepRetry } from "../../engine/services/step-retry.ts"
import { WholeOutputs } from "../../engine/services/whole-output.ts"
import { cancelRun } from "../../engine/waiting/cancel-run.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { RunRow } from "../../store/contract/store.ts"
import type { AnyWorkflow } from "../definitions.ts"
import type { CallingFunction } from "../durable/program-executor.ts"
import { checkIsNew, checkRunOptions } from "../enqueue-options.ts"
import { CancelledError, ConflictError, NotFoundError, TaskFailedError } from "../errors.ts"
import type { AnyGraph } from "../graph/graph.ts"
import { valueAt } from "../graph/refs.ts"
import { checkNames, RETRY_WORK } from "../option-names.ts"
import type { EnqueueOptions, ListOptions, TransactionOptions, Work } from "../orkable.ts"
import { paramsOf } from "../to-json.ts"
import { isInTransaction } from "./in-transaction.ts"
import { failureOf, readOutput, resultOf } from "./outcomes.ts"
import { throwPublicError } from "./public-errors.ts"
import type { WaitOptions } from "./results.ts"
import { boundParams } from "./run-params.ts"
import type { WorkContext } from "./work-context.ts"
import type { WorkflowVersions } from "./workflow-versions.ts"

const PAGE = 100

export class Runs {
  readonly #context: WorkContext
  readonly #versions: WorkflowVersions
  readonly #outputs: WholeOutputs

  constructor(context: WorkContext, versions: WorkflowVersions) {
    this.#context = context
    this.#versions = versions
    this.#outputs = new WholeOutputs(context.parts)
  }

  async start<Result>(
    definition: AnyWorkflow | AnyGraph,
    input: unknown,
    options: EnqueueOptions | TransactionOptions,
  ): Promise<Work<Result>> {
    const { clock, random } = this.#context.parts
    if (isInTransaction(options)) {
      throw new TypeError(
        `${definition.kind} ${definition.name} cannot start in a transaction: enqueue a task in it, which starts the run`,
      )
    }
    checkRunOptions(options, `${definition.kind} ${definition.name}`)
    const { workflowId, versionId, workflow } = await this.#versions.of(definition).catch(throwPublicError)
    const creation = this.#create({
      id: newRunId(clock.now(), random.hex128()),
      workflowId,
      versionId,
      trigger: "manual",
      params: boundParams(workflow, input, definition.name),
      priority: options.priority ?? (definition.kind === "workflow" ? definition.priority : null),
      idempotencyKey: options.key ?? null,
    })
    const { run, created } = await creation.catch(throwPublicError)
    checkIsNew({ id: run.id, created }, options, definition.name)
    const maySkipFirstRead =
      created && this.#context.runsDefinition(definition.name) ? this.#context.results.maySkipFirstRead() : undefined
    return this.#toWork(await this.#withError(run).catch(throwPublicError), created, maySkipFirstRead) as Work<Result>
  }

  async #create(
    run: Omit<Parameters<ServerStore["createRuns"]>[0][number], "logicalDate" | "private" | "workingDir">,
  ): Promise<{ run: RunRow; created: boolean }> {
    const { store } = this.#context.parts
    const [result] = await this.#context.createThenClaim("runs", () =>
      store.createRuns([{ ...run, logicalDate: null, private: false, workingDir: null }]),
    )
    return result!
  }

  /** Starts a run as the child of a durable function, unless it exists. */
  async startChild(parent: CallingFunction, id: RunId, definition: AnyWorkflow, input: unknown): Promise<void> {
    const { workflowId, versionId } = await this.#versions.of(definition)
    await this.#create({
      id,
      workflowId,
      versionId,
      trigger: "workflow",
      params: paramsOf(input, definition.name),
      priority: definition.priority,
      idempotencyKey: null,
      parent: { ...parent, rootRunId: null, depth: 1, withinSameWorkflow: true },
    })
  }

  async get(id: RunId): Promise<Work<unknown> | null> {
    const run = await this.#find(id).catch(throwPublicError)
    return run === null ? null : this.#toWork(run, false)
  }

  async #find(id: RunId): Promise<RunRow | null> {
    const run = await this.#context.parts.store.getRun(id)
    return run === null ? null : await this.#withError(run)
  }

  /** Returns a run with the error of its function. */
  async #withError(run: RunRow): Promise<RunRow> {
    if (run.error !== FUNCTION_FAILED) return run
    const main = await this.#context.parts.store.getTask({ runId: run.id, name: MAIN_TASK, path: "" })
    return { ...run, error: main?.error ?? run.error }
  }

  async *list(workflow: string, status: ListOptions["status"]): AsyncGenerator<Work<unknown>> {
    let before: { createdAt: string; id: RunId } | null = null
    for (;;) {
      this.#context.checkOpen()
      const page: RunRow[] = await this.#context.parts.store
        .listRuns({ workflow, limit: PAGE, ...(before !== null && { before }) })
        .catch(throwPublicError)
      for (const run of page) {
        if (status === undefined || (status as readonly string[]).includes(run.status))
          yield this.#toWork(await this.#withError(run).catch(throwPublicError), false)
      }
      if (page.length < PAGE) return
      before = page.at(-1)!
    }
  }

  /** Returns a run as work. `maySkipFirstRead`: given for a run that this process works on and has just created. */
  #toWork(run: RunRow, created: boolean, maySkipFirstRead?: () => boolean): Work<unknown> {
    const { store } = this.#context.parts
    const { id, workflow: name } = run
    const find = async (): Promise<RunRow> => {
      this.#context.checkOpen()
      const found = await this.#find(id).catch(throwPublicError)
      if (found === null) throw new NotFoundError(`there is no run ${id}`)
      return found
    }
    return {
      id,
      name,
      created,
      status: run.status,
      input: run.params,
      attempts: 1,
      error: run.error,
      progress: null,
      result: (options) => this.#result(run, { ...options, maySkipFirstRead }).catch(throwPublicError),
      cancel: async () => {
        this.#context.checkOpen()
        const cancelled = cancelRun(store, id).finally(() => this.#context.engine?.wake())
        if (!(await cancelled.catch(throwPublicError))) throw new ConflictError(`run ${id} has ended and cannot be cancelled`)
      },
      retry: async (options = {}) => {
        checkNames(options, RETRY_WORK, "retry")
        const { from } = options
        this.#context.checkOpen()
        const engine = this.engineOf("retry")
        const fromStep = from === undefined ? null : planStepRetry(store, id, { name: from, occurrence: 0 })
        await engine.retry(id, (await fromStep?.catch(throwPublicError))?.request ?? {}).catch(throwPublicError)
      },
      refresh: async () => this.#toWork(await find(), created),
    }
  }

  /** Returns the engine. Throws when this process runs no definitions. */
  engineOf(operation: string): Engine {
    if (this.#context.engine !== null) return this.#context.engine
    throw new ConflictError(`${operation} of a run requires a process that runs definitions: list some in run of Ork.open`)
  }

  async #result({ id, workflow: name }: RunRow, options: WaitOptions): Promise<unknown> {
    const { store, objects } = this.#context.parts
    const read = async (): Promise<RunRow> => {
      this.#context.checkOpen()
      const run = await store.getRun(id)
      if (run === null) throw new NotFoundError(`there is no run ${id}`)
      return run
    }
    const readEnded = async (): Promise<RunRow | null> => {
      const run = await read()
      return isRunClosed(run.status) ? run : null
    }
    const graph = this.#versions.graph(name)
    const announced = await this.#context.results.wait(id, readEnded, options)
    if ("result" in announced) {
      const { task, output } = announced.result
      if (task === null) return await readOutput(objects, output)
      if (task === graph?.result?.task) return valueAt(await readOutput(objects, output), graph.result.segments)
    }
    const ended = "result" in announced ? await read() : announced
    if (ended.status === "cancelled") throw new CancelledError(`run ${id} of ${name} was cancelled`)
    if (ended.status === "success") return await resultOf({ store, outputs: this.#outputs, graph }, ended)
    throw new TaskFailedError(name, id, await failureOf(store, ended))
  }
}
