// The engine in a user's program: opens a database, runs the given definitions, and enqueues work.

import { createHash } from "node:crypto"
import type { Child } from "../core/model/function-signals.ts"
import { newRunId, parseRunId, type RunId, uuidv7 } from "../core/model/ids.ts"
import type { JsonObject } from "../core/values/json.ts"
import { iso } from "../core/model/ports.ts"
import { isRunClosed } from "../core/model/status.ts"
import type { CompiledWorkflow } from "../core/model/workflow.ts"
import { DEFAULT_JOB_RETRY, isJobFinished, type JobStatus } from "../core/rules/jobs/jobs.ts"
import { JOB_CANCELLED } from "../core/rules/messages.ts"
import { cronProblem } from "../core/time/cron.ts"
import type { Engine } from "../engine/engine.ts"
import type { Logger } from "../engine/ports.ts"
import { cancelChild, cancelRun } from "../engine/waiting/cancel-run.ts"
import { deploy } from "../engine/services/deploy.ts"
import { Scheduler } from "../engine/services/scheduler.ts"
import { Triggers } from "../engine/services/triggers.ts"
import { Housekeeping } from "../engine/services/housekeeping.ts"
import { planStepRetry } from "../engine/services/step-retry.ts"
import { UnhandledJobs } from "../engine/services/unhandled-jobs.ts"
import { WholeOutputs } from "../engine/services/whole-output.ts"
import { answerFunction } from "../engine/waiting/function-approvals.ts"
import type { JobRejection, JobRow, NewJob } from "../store/contract/jobs.ts"
import type { JobInTransaction } from "../store/contract/transactions.ts"
import { Conflict, NotFound } from "../store/contract/errors.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import type { CreatedWork, RunRow } from "../store/contract/store.ts"
import { checkDefinitions } from "./check-definitions.ts"
import type { AnyTask, AnyWorkflow, Definition, SignalDefinition, TaskDefinition } from "./definitions.ts"
import { type Duration, optionalMs, toMs } from "./duration.ts"
import type { ChildDefinition } from "./durable/activation.ts"
import type { ParentFunction } from "./durable/program-executor.ts"
import { asTransactionError, checkNotInTransaction } from "./durable/transactions.ts"
import { EventReader, type EventOptions, type OrkEvent } from "./events.ts"
import { CancelledError, ConflictError, NotFoundError, StoppedError, TaskFailedError } from "./errors.ts"
import { type AnyGraph, withCalledDefinitions } from "./graph/graph.ts"
import { valueAt } from "./graph/refs.ts"
import { jobLimitsOf } from "./job-limits.ts"
import {
  idOf,
  type AnswerOptions,
  type Enqueueable,
  type EnqueueOptions,
  type JobState,
  type ListOptions,
  type Orkable,
  type ScheduleOptions,
  type TransactionOptions,
  type Work,
  type WorkRef,
} from "./orkable.ts"
import { createEngine, dataFolder, GRACE_MS } from "./embedded/create-engine.ts"
import type { OrkParts } from "./embedded/ork-parts.ts"
import type { RetentionOptions } from "./embedded/retention-limits.ts"
import { functionWorkflow, taskNode } from "./embedded/function-workflow.ts"
import { childEnd, failureOf, readOutput, resultOf } from "./embedded/outcomes.ts"
import { Results, type WaitOptions } from "./embedded/results.ts"
import { boundParams, paramsOf } from "./embedded/run-params.ts"
import { validate } from "./schema.ts"
import { toJson } from "./to-json.ts"

export interface OrkOptions {
  /** `sqlite:FILE` or `postgres://…`. Default: ORK_DATABASE_URL, or sqlite:.ork/ork.db. */
  database?: string
  /** Definitions whose work this process runs. With an empty list it only produces. */
  run: readonly Definition[]
  /** Number of handlers that run at once in this process. Default: 100. */
  concurrency?: number
  /**
   * Time for which handlers may block the event loop. Then other processes take over the work of this one. Default: 1 minute.
   */
  stallLimit?: Duration
  /**
   * What is kept of ended work. Processes that run definitions remove the rest once an hour. Default: everything, except events that are
   * older than an hour.
   */
  retention?: RetentionOptions
  /** Where results over 64 KiB and logs go. Default: ORK_OBJECT_STORE, or file:.ork/objects. */
  objects?: string
  /** Name of this process in lists. Default: host and process. */
  name?: string
  /** Default: warnings and errors on stderr. */
  log?: Logger
}

const PAGE = 100

interface StoredWorkflow {
  workflowId: number
  versionId: number
  workflow: CompiledWorkflow
}

export class Ork implements Orkable {
  readonly #parts: OrkParts
  readonly #definitions: readonly Definition[]
  readonly #engine: Engine | null
  readonly #scheduler: Scheduler | null
  readonly #triggers: Triggers | null
  readonly #housekeeping: Housekeeping | null
  readonly #results: Results
  readonly #events: EventReader
  readonly #unhandled: UnhandledJobs
  readonly #outputs: WholeOutputs
  readonly #workflows = new Map<string, Promise<StoredWorkflow>>()
  readonly #tasks = new WeakMap<AnyTask, JsonObject>()
  /** Graphs of this process, by name. */
  readonly #graphs = new Map<string, AnyGraph>()
  #stopped: Promise<void> | null = null

  /** Use `Ork.open`. */
  constructor(parts: OrkParts, definitions: readonly Definition[]) {
    this.#parts = parts
    this.#definitions = withCalledDefinitions(definitions)
    this.#engine = definitions.length === 0 ? null : this.#createEngine()
    this.#scheduler = this.#engine === null ? null : this.#createScheduler(this.#engine)
    this.#triggers = this.#engine === null ? null : this.#createTriggers(this.#engine)
    this.#housekeeping = this.#engine === null ? null : this.#createHousekeeping()
    this.#outputs = new WholeOutputs(parts)
    this.#results = new Results(parts, this.#engine)
    this.#events = new EventReader(parts.store)
    this.#unhandled = new UnhandledJobs(parts)
    this.#engine?.onEvent(() => this.#events.wake())
    parts.store.onWake(() => this.#events.wake())
  }

  /** Opens the database, creates or migrates its tables, and starts the engine. */
  static async open(options: OrkOptions): Promise<Ork> {
    checkDefinitions(withCalledDefinitions(options.run))
    const { openParts } = await import("./open.ts")
    return await Ork.start(await openParts(options), options.run)
  }

  /** Starts an engine on open parts, which belong to it from then on. */
  static async start(parts: OrkParts, definitions: readonly Definition[]): Promise<Ork> {
    const ork = new Ork(parts, definitions)
    try {
      await ork.#start()
      return ork
    } catch (error) {
      await parts.store.close()
      throw error
    }
  }

  async #start(): Promise<void> {
    for (const definition of this.#definitions) {
      if (definition.kind !== "task") await this.#versionOf(definition)
      else if (definition.limit.rate !== null) {
        const { limit, periodMs } = definition.limit.rate
        await this.#parts.store.putQueue(definition.queue, { rate: { limit, periodMs } })
      }
    }
    await this.#engine?.start()
    this.#scheduler?.start()
    this.#triggers?.start()
    this.#housekeeping?.start()
  }

  /**
   * Claims nothing more, gives running handlers `grace` to end, and closes the database. Handlers that have not ended then are aborted,
   * and run again elsewhere.
   */
  stop({ grace = GRACE_MS }: { grace?: Duration } = {}): Promise<void> {
    return (this.#stopped ??= this.#stop(toMs(grace, "grace")))
  }

  async #stop(drainMs: number): Promise<void> {
    await this.#scheduler?.stop()
    await this.#triggers?.stop()
    await this.#housekeeping?.stop()
    await this.#engine?.stop({ drainMs })
    this.#results.stop()
    this.#events.stop()
    await this.#parts.evaluator.stop()
    await this.#parts.store.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  // -- work ------------------------------------------------------------------------------------------------------------------------

  enqueue<Input, Result>(
    definition: Enqueueable<Input, Result>,
    input: NoInfer<Input>,
    options?: EnqueueOptions & { tx?: never },
  ): Promise<Work<Result>>
  /** Creates the job in a transaction of the user. */
  enqueue<Input, Result>(
    definition: TaskDefinition<Input, Result>,
    input: NoInfer<Input>,
    options: TransactionOptions,
  ): Promise<Work<Result>>
  async enqueue<Input, Result>(
    definition: Enqueueable<Input, Result>,
    input: NoInfer<Input>,
    options: EnqueueOptions | TransactionOptions = {},
  ): Promise<Work<Result>> {
    this.#checkOpen(options)
    await validate(definition.schema, input, `the input of ${definition.name}`)
    if (definition.kind !== "task") return await this.#startRun(definition, input, options)
    const [work] = await this.#createJobs([this.#newJob(definition, input, options)], options)
    return work as Work<Result>
  }

  async enqueueAll<Input, Result>(
    definition: TaskDefinition<Input, Result>,
    inputs: readonly NoInfer<Input>[],
    options: Omit<EnqueueOptions, "key"> | Omit<TransactionOptions, "key"> = {},
  ): Promise<Work<Result>[]> {
    this.#checkOpen(options)
    const jobs: NewJob[] = []
    const { schema, name } = definition
    for (const [i, input] of inputs.entries()) {
      if (schema !== undefined) await validate(schema, input, `input ${i} of ${name}`)
      jobs.push(this.#newJob(definition, input, options))
    }
    return (await this.#createJobs(jobs, options)) as Work<Result>[]
  }

  async get(id: string): Promise<Work<unknown> | null> {
    this.#checkOpen()
    const runId = parseRunId(id)
    if (runId === null) return null
    const job = await this.#parts.store.getJob(id)
    if (job !== null) return this.#jobWork(job)
    const run = await this.#parts.store.getRun(runId)
    return run === null ? null : this.#runWork(run, false)
  }

  async *list({ def, status }: ListOptions): AsyncGenerator<Work<unknown>> {
    this.#checkOpen()
    const name = typeof def === "string" ? def : def.name
    const isWorkflow = typeof def === "string" ? (await this.#parts.store.getWorkflow(name)) !== null : def.kind !== "task"
    yield* isWorkflow ? this.#listRuns(name, status) : this.#listJobs(name, status)
  }

  async *#listJobs(name: string, status: ListOptions["status"]): AsyncGenerator<Work<unknown>> {
    const statuses = status?.map((each) => each.toUpperCase() as JobStatus)
    const filter = { name, ...(statuses !== undefined && { status: statuses }) }
    let after: { createdAt: string; id: string } | null = null
    for (;;) {
      const page: JobRow[] = await this.#parts.store.searchJobs({ filter, limit: PAGE, ...(after !== null && { after }) })
      for (const job of page) yield this.#jobWork(job)
      if (page.length < PAGE) return
      after = page.at(-1)!
    }
  }

  async *#listRuns(workflow: string, status: ListOptions["status"]): AsyncGenerator<Work<unknown>> {
    let before: { createdAt: string; id: RunId } | null = null
    for (;;) {
      const page: RunRow[] = await this.#parts.store.listRuns({ workflow, limit: PAGE, ...(before !== null && { before }) })
      for (const run of page) {
        if (status === undefined || (status as readonly string[]).includes(run.status)) yield this.#runWork(run, false)
      }
      if (page.length < PAGE) return
      before = page.at(-1)!
    }
  }

  async signal<Payload>(
    run: WorkRef,
    { name, schema }: SignalDefinition<Payload>,
    payload: NoInfer<Payload>,
    { key }: { key?: string } = {},
  ): Promise<boolean> {
    this.#checkOpen()
    await validate(schema, payload, `the signal ${name}`)
    const id = idOf(run)
    const runId = parseRunId(id)
    const sent = { name, payload: toJson(payload, `the signal ${name}`), key: key ?? null }
    const found = runId === null ? null : await this.#parts.store.getRun(runId)
    const isDurable = found !== null && (await this.#parts.store.compiled(found.versionId)).nodes[0]?.durable === true
    const outcome = isDurable ? await this.#parts.store.sendSignal({ runId: found.id, ...sent }) : "unknown"
    this.#engine?.wake()
    if (outcome === "unknown") throw new NotFoundError(`there is no run ${id} of a durable function`)
    if (outcome === "ended") throw new ConflictError(`run ${id} has ended and gets no signal ${name}`)
    return outcome === "sent"
  }

  events(options: EventOptions = {}): AsyncGenerator<OrkEvent> {
    this.#checkOpen()
    return this.#events.read(options)
  }

  approve(run: WorkRef, name: string, options?: AnswerOptions): Promise<void> {
    return this.#answer(run, name, { approved: true, ...options })
  }

  reject(run: WorkRef, name: string, options?: AnswerOptions): Promise<void> {
    return this.#answer(run, name, { approved: false, ...options })
  }

  async #answer(
    run: WorkRef,
    name: string,
    { approved, comment = null, path = "" }: Omit<AnswerOptions, "comment"> & { approved: boolean; comment?: string | null },
  ): Promise<void> {
    this.#checkOpen()
    const id = idOf(run)
    const runId = parseRunId(id)
    if (runId === null) throw new NotFoundError(`there is no run ${id}`)
    const answer = { runId, name, path, approved, comment, by: this.#parts.name }
    await (
      this.#engine === null
        ? answerFunction(this.#parts, answer).then((isFunction) => isFunction || this.#engineOf("the approval"))
        : this.#engine.externalSignals.approval(answer)
    ).catch(conflictOf)
  }

  async schedule<Input>(
    name: string,
    cron: string,
    definition: Enqueueable<Input, unknown>,
    input: NoInfer<Input>,
    options: ScheduleOptions = {},
  ): Promise<void> {
    this.#checkOpen()
    await validate(definition.schema, input, `the input of ${definition.name}`)
    const { timezone = "UTC", catchup = "none", overlap = "skip" } = options
    const problem = cronProblem(cron)
    if (problem !== null) throw new TypeError(`the schedule ${name}: ${problem}`)
    const workflow =
      definition.kind === "graph" ? (await this.#versionOf(definition)).workflow : functionWorkflow(name, definition)
    const params = boundParams(workflow, input, definition.name)
    await this.#deploy({ ...workflow, name, schedules: [{ cron, timezone, catchup, overlap, params: { lit: params } }] })
    this.#scheduler?.wake()
  }

  async unschedule(name: string): Promise<void> {
    this.#checkOpen()
    await this.#parts.store.removeWorkflow(name)
  }

  // -- jobs ------------------------------------------------------------------------------------------------------------------------

  #newJob(definition: AnyTask, input: unknown, options: EnqueueOptions): NewJob {
    const { clock, random } = this.#parts
    const { name, queue, retry, timeoutMs, expiresMs } = definition
    const group = definition.group === null ? null : String(definition.group(input as never))
    return {
      id: uuidv7(clock.now(), random.hex128()),
      name,
      queue,
      payload: toJson(input, `the input of ${name}`),
      priority: options.priority ?? definition.priority,
      dependencies: [],
      retryPolicy: DEFAULT_JOB_RETRY,
      retry,
      task: this.#taskOf(definition),
      concurrencyKey: null,
      concurrencyLimit: 1,
      limits: jobLimitsOf(definition, group),
      key: options.key ?? null,
      runAt: options.at === undefined ? null : iso(options.at.getTime()),
      delayMs: optionalMs(options.delay, "delay"),
      timeoutMs,
      expiresMs,
      group,
    }
  }

  /** Returns the executor fields of a task's jobs, which share one object. */
  #taskOf(definition: AnyTask): JsonObject {
    let task = this.#tasks.get(definition)
    if (task === undefined) {
      const { executor, function: functionName, paramsAsInput, timeoutMs, startTimeoutMs } = taskNode(definition)
      this.#tasks.set(
        definition,
        (task = { executor, function: functionName!, paramsAsInput: paramsAsInput!, timeoutMs, startTimeoutMs }),
      )
    }
    return task
  }

  async #createJobs(jobs: NewJob[], options: Pick<EnqueueOptions, "onConflict"> | JobsInTransaction): Promise<Work<unknown>[]> {
    const created = await (isInTransaction(options)
      ? this.#createJobsIn(jobs, options)
      : this.#create("jobs", () => this.#parts.store.createJobs(jobs, options)))
    if (!("rejected" in created)) {
      const maySkipFirstRead = this.#results.maySkipFirstRead()
      const runsHere = jobs[0] === undefined || this.#runs(jobs[0])
      if (!isInTransaction(options) && !runsHere) await this.#unhandled.check(jobs)
      return created.map((job) => this.#jobWork(job, runsHere && job.created ? maySkipFirstRead : undefined))
    }
    const taken = created.rejected === "key_exists" ? `the key is taken by job ${created.id}` : created.rejected
    throw new ConflictError(`no job of ${jobs[0]!.name} was created: ${taken}`)
  }

  /** Returns whether this process runs work of the definition with this name. */
  #runs({ name }: { name: string }): boolean {
    return this.#definitions.some((definition) => definition.name === name)
  }

  async #createJobsIn(
    jobs: NewJob[],
    { tx, onConflict = "existing" }: JobsInTransaction,
  ): Promise<JobInTransaction[] | JobRejection> {
    const { store } = this.#parts
    // A program in JavaScript may pass it.
    if ((onConflict as string) === "replace") throw new TypeError("onConflict: replace is not possible in a transaction (tx)")
    return await store.createJobsIn(tx, jobs, onConflict).catch(asTransactionError)
  }

  /** `maySkipFirstRead`: given for a job that this process runs and has just created. */
  #jobWork(job: JobInTransaction & Partial<Pick<JobRow, "progress">>, maySkipFirstRead?: () => boolean): Work<unknown> {
    const { store } = this.#parts
    return {
      id: job.id,
      name: job.name,
      created: job.created,
      status: job.status.toLowerCase() as JobState,
      input: job.payload,
      attempts: job.attemptCount,
      error: job.error,
      progress: job.progress ?? null,
      result: (options) => this.#jobResult(job, { ...options, maySkipFirstRead }),
      cancel: async () => {
        const rejected = await store.cancelJob(job.id).finally(() => this.#engine?.wake())
        this.#results.recheck(job.id)
        if ("rejected" in rejected) throw new ConflictError(`job ${job.id} cannot be cancelled: ${rejected.rejected}`)
      },
      retry: async ({ from } = {}) => {
        if (from !== undefined) throw new ConflictError(`job ${job.id} has no steps to retry from`)
        const rejected = await store.retryJob(job.id).finally(() => this.#engine?.wake())
        if ("rejected" in rejected) throw new ConflictError(`job ${job.id} cannot be retried: ${rejected.rejected}`)
      },
      refresh: async () => this.#jobWork(await this.#findJob(job.id)),
    }
  }

  async #findJob(id: string): Promise<JobRow> {
    const job = await this.#parts.store.getJob(id)
    if (job === null) throw new NotFoundError(`there is no job ${id}`)
    return job
  }

  async #jobResult(job: Pick<JobRow, "id" | "name">, options: WaitOptions): Promise<unknown> {
    const ended = await this.#results.wait(
      job.id,
      async () => {
        const found = await this.#findJob(job.id)
        return isJobFinished(found.status) ? found : null
      },
      options,
    )
    if ("result" in ended) return await readOutput(this.#parts.objects, ended.result.output)
    if (ended.status === "COMPLETED") return ended.output === null ? null : await readOutput(this.#parts.objects, ended.output)
    if (ended.error === JOB_CANCELLED) throw new CancelledError(`job ${job.id} of ${job.name} was cancelled`)
    throw new TaskFailedError(job.name, job.id, ended.error ?? "no reason is known")
  }

  // -- durable functions and graphs --------------------------------------------------------------------------------------------------

  async #startRun<Result>(
    definition: AnyWorkflow | AnyGraph,
    input: unknown,
    options: EnqueueOptions | TransactionOptions,
  ): Promise<Work<Result>> {
    const { clock, random } = this.#parts
    if (isInTransaction(options)) {
      throw new TypeError(
        `${definition.kind} ${definition.name} cannot start in a transaction: enqueue a task in it, which starts the run`,
      )
    }
    if (options.delay !== undefined || options.at !== undefined) {
      throw new TypeError(`${definition.kind} ${definition.name} cannot be delayed: begin it with a sleep`)
    }
    const { workflowId, versionId, workflow } = await this.#versionOf(definition)
    const { run, created } = await this.#createRun({
      id: newRunId(clock.now(), random.hex128()),
      workflowId,
      versionId,
      trigger: "manual",
      params: boundParams(workflow, input, definition.name),
      priority: options.priority ?? (definition.kind === "workflow" ? definition.priority : null),
      idempotencyKey: options.key ?? null,
    })
    if (!created && options.onConflict === "error") {
      throw new ConflictError(`no run of ${definition.name} was created: the key is taken by run ${run.id}`)
    }
    const maySkipFirstRead = created && this.#runs(definition) ? this.#results.maySkipFirstRead() : undefined
    return this.#runWork(run, created, maySkipFirstRead) as Work<Result>
  }

  async #createRun(
    run: Omit<Parameters<ServerStore["createRuns"]>[0][number], "logicalDate" | "private" | "workingDir">,
  ): Promise<{ run: RunRow; created: boolean }> {
    const { store } = this.#parts
    const [result] = await this.#create("runs", () =>
      store.createRuns([{ ...run, logicalDate: null, private: false, workingDir: null }]),
    )
    return result!
  }

  /** Makes a call that creates work, which the engine of this process claims, if there is one. */
  #create<T>(work: CreatedWork, call: () => Promise<T>): Promise<T> {
    const create = (): Promise<T> => (this.#engine === null ? call() : this.#engine.create(work, call))
    return this.#events.position?.then(create) ?? create()
  }

  #versionOf(definition: AnyWorkflow | AnyGraph): Promise<StoredWorkflow> {
    const known = this.#workflows.get(definition.name)
    if (known !== undefined) return known
    const stored =
      definition.kind === "graph" ? this.#deployGraph(definition) : this.#deploy(functionWorkflow(definition.name, definition))
    this.#workflows.set(definition.name, stored)
    stored.catch(() => this.#workflows.delete(definition.name))
    return stored
  }

  async #deploy(workflow: CompiledWorkflow): Promise<StoredWorkflow> {
    const source = JSON.stringify(workflow, null, 2)
    const hash = createHash("sha256").update(source).digest("hex")
    const { workflowId, versionId } = await deploy(this.#parts.store, { workflow, hash, source })
    return { workflowId, versionId, workflow }
  }

  async #deployGraph(definition: AnyGraph): Promise<StoredWorkflow> {
    this.#graphs.set(definition.name, definition)
    const { deployGraph } = await import("./graph/compile-graph.ts")
    return await deployGraph(definition, { ...this.#parts, wake: () => this.#wake() }, this.#parts.prepare)
  }

  #wake(): void {
    this.#engine?.wake()
    this.#scheduler?.wake()
  }

  /** `maySkipFirstRead`: given for a run that this process works on and has just created. */
  #runWork(run: RunRow, created: boolean, maySkipFirstRead?: () => boolean): Work<unknown> {
    const { store } = this.#parts
    const { id, workflow: name } = run
    const find = async (): Promise<RunRow> => {
      const found = await store.getRun(id)
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
      result: (options) => this.#runResult(run, { ...options, maySkipFirstRead }),
      cancel: async () => {
        if (!(await cancelRun(store, id).finally(() => this.#engine?.wake()))) {
          throw new ConflictError(`run ${id} has ended and cannot be cancelled`)
        }
      },
      retry: async ({ from } = {}) => {
        const engine = this.#engineOf("retry")
        const fromStep = from === undefined ? null : planStepRetry(store, id, { name: from, occurrence: 0 })
        await engine.retry(id, (await fromStep?.catch(conflictOf))?.request ?? {}).catch(conflictOf)
      },
      refresh: async () => this.#runWork(await find(), false),
    }
  }

  #engineOf(operation: string): Engine {
    if (this.#engine !== null) return this.#engine
    throw new ConflictError(`${operation} of a run requires a process that runs definitions: list some in run of Ork.open`)
  }

  async #runResult({ id, workflow: name }: RunRow, options: WaitOptions): Promise<unknown> {
    const { store, objects } = this.#parts
    const read = async (): Promise<RunRow> => {
      const run = await store.getRun(id)
      if (run === null) throw new NotFoundError(`there is no run ${id}`)
      return run
    }
    const readEnded = async (): Promise<RunRow | null> => {
      const run = await read()
      return isRunClosed(run.status) ? run : null
    }
    const graph = this.#graphs.get(name)
    const announced = await this.#results.wait(id, readEnded, options)
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

  // -- children of durable functions ---------------------------------------------------------------------------------------------------

  #newChild({ kind }: ChildDefinition): Child {
    const { clock, random } = this.#parts
    return { kind, id: newRunId(clock.now(), random.hex128()) }
  }

  async #startChild(parent: ParentFunction, child: Child, definition: ChildDefinition, input: unknown): Promise<void> {
    if (definition.kind === "task") {
      const job = { ...this.#newJob(definition, input, {}), id: child.id, callerRow: parent.row }
      const created = await this.#create("jobs", () => this.#parts.store.createJobs([job]))
      if ("rejected" in created && created.rejected !== "exists")
        throw new Error(`job ${child.id} was not created: ${created.rejected}`)
      return
    }
    const { workflowId, versionId } = await this.#versionOf(definition)
    await this.#createRun({
      id: child.id as RunId,
      workflowId,
      versionId,
      trigger: "workflow",
      params: paramsOf(input, definition.name),
      priority: definition.priority,
      idempotencyKey: null,
      parent: { ...parent, rootRunId: null, depth: 1, withinSameWorkflow: true },
    })
  }

  // -- parts -----------------------------------------------------------------------------------------------------------------------

  #createEngine(): Engine {
    return createEngine(this.#parts, this.#definitions, {
      newChild: (definition) => this.#newChild(definition),
      startChild: (parent, child, definition, input) => this.#startChild(parent, child, definition, input),
      childEnd: (child) => childEnd(this.#parts.store, child),
      cancelChild: (child) => cancelChild(this.#parts.store, child).finally(() => this.#engine?.wake()),
    })
  }

  #createScheduler(engine: Engine): Scheduler {
    const { store, evaluator, clock, random, log } = this.#parts
    return new Scheduler({
      store,
      evaluator,
      clock,
      random,
      log,
      cancel: (runId) => engine.cancel(runId).catch(ignoreConflict),
      wake: () => engine.wake(),
    })
  }

  #createTriggers(engine: Engine): Triggers {
    const { store, evaluator, clock, random, log } = this.#parts
    const triggers = new Triggers({ store, evaluator, clock, random, log, wake: () => engine.wake() })
    engine.onEvent(({ type, status }) => {
      if (type === "run" && status === "success") triggers.wake()
    })
    return triggers
  }

  #createHousekeeping(): Housekeeping | null {
    const { retention, ...parts } = this.#parts
    return retention === undefined ? null : new Housekeeping({ ...parts, ...retention, dataDir: dataFolder() })
  }

  #checkOpen(options: object = {}): void {
    if (this.#stopped !== null) throw new StoppedError()
    if (!isInTransaction(options)) checkNotInTransaction()
  }
}

type JobsInTransaction = Pick<TransactionOptions, "tx" | "onConflict">

const isInTransaction = <Options extends object>(options: Options): options is Options & JobsInTransaction =>
  "tx" in options && options.tx !== undefined

const conflictOf = (error: unknown): never => {
  if (error instanceof Conflict) throw new ConflictError(error.message)
  if (error instanceof NotFound) throw new NotFoundError(error.message)
  throw error
}

const ignoreConflict = (error: unknown): void => {
  if (!(error instanceof Conflict)) throw error
}
