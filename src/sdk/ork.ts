// The engine in a user's program: opens a database, runs the given definitions, and enqueues work.

import { newRunId, parseRunId, type RunId } from "../core/model/ids.ts"
import { functionWorkflow } from "../core/model/function-workflow.ts"
import type { CompiledWorkflow } from "../core/model/workflow.ts"
import type { Engine } from "../engine/engine.ts"
import type { Logger } from "../engine/ports.ts"
import { cancelChild } from "../engine/waiting/cancel-run.ts"
import { Scheduler } from "../engine/services/scheduler.ts"
import { Triggers } from "../engine/services/triggers.ts"
import { Housekeeping } from "../engine/services/housekeeping.ts"
import { answerFunction } from "../engine/waiting/function-approvals.ts"
import type { NewJob } from "../store/contract/jobs.ts"
import type { NewSignal, SignalOutcome } from "../store/contract/functions.ts"
import { Conflict } from "../store/contract/errors.ts"
import { checkDefinitions, checkIsDefinition, checkIsTask, checkRun } from "./check-definitions.ts"
import type { Definition, SignalDefinition, TaskDefinition } from "./definitions.ts"
import { type Duration, toMs } from "./duration.ts"
import { checkNotInTransaction } from "./durable/transactions.ts"
import { checkScheduleName, checkText } from "./checks.ts"
import { checkEnqueueAllOptions, checkEnqueueOptions } from "./enqueue-options.ts"
import { checkEventOptions, EventReader, type EventOptions, type OrkEvent } from "./events.ts"
import { ConflictError, noFunction, NotFoundError, StoppedError } from "./errors.ts"
import { withCalledDefinitions } from "./graph/graph.ts"
import { checkStatuses } from "./list-options.ts"
import { ANSWER, checkNames, ENQUEUE_IN_TRANSACTION, LIST, OPEN, SIGNAL } from "./option-names.ts"
import {
  idOf,
  type AnswerOptions,
  type Enqueueable,
  type EnqueueOptions,
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
import { childEnd } from "./embedded/outcomes.ts"
import { Results } from "./embedded/results.ts"
import { boundParams } from "./embedded/run-params.ts"
import { isInTransaction } from "./embedded/in-transaction.ts"
import { Jobs } from "./embedded/jobs.ts"
import { throwPublicError } from "./embedded/public-errors.ts"
import { Runs } from "./embedded/runs.ts"
import type { WorkContext } from "./embedded/work-context.ts"
import { WorkflowVersions } from "./embedded/workflow-versions.ts"
import { checkSchedule } from "./schedule-options.ts"
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
   * Limits of how much finished work is kept. Processes that run definitions remove the rest once an hour. Default: all finished work is
   * kept, and events for an hour.
   */
  retention?: RetentionOptions
  /** Where results over 64 KiB and logs go. Default: ORK_OBJECT_STORE, or file:.ork/objects. */
  objects?: string
  /** Name of this process in lists. Default: host and process. */
  name?: string
  /** Default: warnings and errors on stderr. */
  log?: Logger
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
  readonly #versions: WorkflowVersions
  readonly #jobs: Jobs
  readonly #runs: Runs
  #stopped: Promise<void> | null = null

  /** Use `Ork.open`. */
  constructor(parts: OrkParts, definitions: readonly Definition[]) {
    this.#parts = parts
    this.#definitions = withCalledDefinitions(definitions)
    this.#engine = definitions.length === 0 ? null : this.#createEngine()
    this.#scheduler = this.#engine === null ? null : this.#createScheduler(this.#engine)
    this.#triggers = this.#engine === null ? null : this.#createTriggers(this.#engine)
    this.#housekeeping = this.#engine === null ? null : this.#createHousekeeping()
    this.#results = new Results(parts, this.#engine)
    this.#events = new EventReader({
      readEvents: (page) => parts.store.readEvents(page).catch(throwPublicError),
      getRun: (id) => parts.store.getRun(id).catch(throwPublicError),
    })
    this.#versions = new WorkflowVersions(parts, () => this.#wake())
    const context = this.#createWorkContext()
    this.#jobs = new Jobs(context)
    this.#runs = new Runs(context, this.#versions)
    this.#engine?.onEvent(() => this.#events.wake())
    parts.store.onWake(() => this.#events.wake())
  }

  /** Opens the database, creates or migrates its tables, and starts the engine. */
  static async open(options: OrkOptions): Promise<Ork> {
    checkNames(options, OPEN, "Ork.open")
    checkRun(options.run)
    checkDefinitions(withCalledDefinitions(options.run))
    const { openParts } = await import("./open.ts")
    return await Ork.start(await openParts(options), options.run).catch(throwPublicError)
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
      if (definition.kind !== "task") await this.#versions.of(definition)
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
  stop(options: { grace?: Duration } = {}): Promise<void> {
    checkNames(options, ["grace"], "stop")
    const { grace = GRACE_MS } = options
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
    checkIsDefinition(definition, "enqueue")
    await validate(definition.schema, input, `the input of ${definition.name}`)
    if (definition.kind !== "task") return await this.#runs.start(definition, input, options)
    checkEnqueueOptions(options, ENQUEUE_IN_TRANSACTION)
    const [work] = await this.#jobs.create([this.#jobs.newJob(definition, input, options)], options)
    return work as Work<Result>
  }

  async enqueueAll<Input, Result>(
    definition: TaskDefinition<Input, Result>,
    inputs: readonly NoInfer<Input>[],
    options: Omit<EnqueueOptions, "key"> | Omit<TransactionOptions, "key"> = {},
  ): Promise<Work<Result>[]> {
    this.#checkOpen(options)
    checkIsTask(definition)
    checkEnqueueAllOptions(options, ENQUEUE_IN_TRANSACTION)
    const jobs: NewJob[] = []
    const { schema, name } = definition
    for (const [i, input] of inputs.entries()) {
      if (schema !== undefined) await validate(schema, input, `input ${i} of ${name}`)
      jobs.push(this.#jobs.newJob(definition, input, options))
    }
    return (await this.#jobs.create(jobs, options)) as Work<Result>[]
  }

  async get(id: string): Promise<Work<unknown> | null> {
    this.#checkOpen()
    const runId = parseRunId(id)
    if (runId === null) return null
    return (await this.#jobs.get(id)) ?? (await this.#runs.get(runId))
  }

  async *list(options: ListOptions): AsyncGenerator<Work<unknown>> {
    this.#checkOpen()
    checkNames(options, LIST, "list")
    const { def, status } = options
    const name = typeof def === "string" ? def : def.name
    const isWorkflow = typeof def === "string" ? (await this.#getWorkflow(name)) !== null : def.kind !== "task"
    checkStatuses(status, isWorkflow ? "run" : "job")
    yield* isWorkflow ? this.#runs.list(name, status) : this.#jobs.list(name, status)
  }

  async signal<Payload>(
    run: WorkRef,
    { name, schema }: SignalDefinition<Payload>,
    payload: NoInfer<Payload>,
    options: { key?: string } = {},
  ): Promise<boolean> {
    this.#checkOpen()
    checkNames(options, SIGNAL, "signal")
    const { key } = options
    await validate(schema, payload, `the signal ${name}`)
    const id = idOf(run)
    const runId = parseRunId(id)
    const sent = {
      name,
      payload: toJson(payload, `the signal ${name}`),
      key: key === undefined ? null : checkText(key, "key"),
    }
    const outcome = runId === null ? "unknown" : await this.#sendSignal({ runId, ...sent }).catch(throwPublicError)
    this.#engine?.wake()
    if (outcome === "unknown") throw noFunction(id)
    if (outcome === "ended") throw new ConflictError(`run ${id} has ended and gets no signal ${name}`)
    return outcome === "sent"
  }

  async #sendSignal(signal: NewSignal): Promise<SignalOutcome> {
    const { store } = this.#parts
    const found = await store.getRun(signal.runId)
    const isDurable = found !== null && (await store.getVersion(found.versionId)).nodes[0]?.durable === true
    return isDurable ? await store.sendSignal(signal) : "unknown"
  }

  events(options: EventOptions = {}): AsyncGenerator<OrkEvent> {
    this.#checkOpen()
    checkEventOptions(options)
    return this.#events.read(options)
  }

  approve(run: WorkRef, name: string, options?: AnswerOptions): Promise<void> {
    return this.#answer(run, name, true, options)
  }

  reject(run: WorkRef, name: string, options?: AnswerOptions): Promise<void> {
    return this.#answer(run, name, false, options)
  }

  async #answer(run: WorkRef, name: string, approved: boolean, options: AnswerOptions = {}): Promise<void> {
    this.#checkOpen()
    checkNames(options, ANSWER, approved ? "approve" : "reject")
    const { comment = null, path = "" } = options
    const id = idOf(run)
    const runId = parseRunId(id)
    if (runId === null) throw new NotFoundError(`there is no run ${id}`)
    const answer = { runId, name, path, approved, comment, by: this.#parts.name }
    await (
      this.#engine === null
        ? answerFunction(this.#parts, answer).then((isFunction) => isFunction || this.#runs.engineOf("the approval"))
        : this.#engine.externalSignals.approval(answer)
    ).catch(throwPublicError)
  }

  async schedule<Input>(
    name: string,
    cron: string,
    definition: Enqueueable<Input, unknown>,
    input: NoInfer<Input>,
    options: ScheduleOptions = {},
  ): Promise<void> {
    this.#checkOpen()
    checkIsDefinition(definition, "schedule")
    await validate(definition.schema, input, `the input of ${definition.name}`)
    const schedule = checkSchedule(name, cron, options)
    await this.#checkIsSchedule(name)
    const workflow =
      definition.kind === "graph"
        ? (await this.#versions.of(definition).catch(throwPublicError)).workflow
        : functionWorkflow(name, definition)
    const params = boundParams(workflow, input, definition.name)
    await this.#versions
      .deploy({ ...workflow, name, schedules: [{ ...schedule, params: { lit: params } }] })
      .catch(throwPublicError)
    this.#scheduler?.wake()
  }

  async unschedule(name: string): Promise<void> {
    this.#checkOpen()
    await this.#checkIsSchedule(name)
    await this.#parts.store.removeWorkflow(name).catch(throwPublicError)
  }

  /** Throws for the name of a workflow that has no schedule: it would be replaced or removed. */
  async #checkIsSchedule(name: string): Promise<void> {
    checkScheduleName(name)
    const found = await this.#getWorkflow(name)
    if (found === null || found.schedules.length > 0) return
    throw new ConflictError(`${name} is the name of a workflow; give its schedule another name, such as ${name}-daily`)
  }

  /** Returns the newest version of a workflow; null: there is none. */
  async #getWorkflow(name: string): Promise<CompiledWorkflow | null> {
    const { store } = this.#parts
    const found = await store.getWorkflow(name).catch(throwPublicError)
    return found === null ? null : await store.getVersion(found.versionId).catch(throwPublicError)
  }

  // -- parts -----------------------------------------------------------------------------------------------------------------------

  #createEngine(): Engine {
    return createEngine(this.#parts, this.#definitions, {
      newChild: ({ kind }) => ({ kind, id: newRunId(this.#parts.clock.now(), this.#parts.random.hex128()) }),
      startChild: (parent, { id }, definition, input) =>
        definition.kind === "task"
          ? this.#jobs.startChild(parent, id, definition, input)
          : this.#runs.startChild(parent, id as RunId, definition, input),
      childEnd: (child) => childEnd(this.#parts.store, child),
      cancelChild: (child) => cancelChild(this.#parts.store, child).finally(() => this.#engine?.wake()),
    })
  }

  #createWorkContext(): WorkContext {
    const engine = this.#engine
    return {
      parts: this.#parts,
      engine,
      results: this.#results,
      checkOpen: () => this.#checkOpen(),
      runsDefinition: (name) => this.#definitions.some((definition) => definition.name === name),
      createThenClaim: (work, call) => {
        const create = (): ReturnType<typeof call> => (engine === null ? call() : engine.createWithTurn(work, call))
        // A new iteration of events that has not read its position yet would miss the events of this work.
        return this.#events.position?.then(create) ?? create()
      },
    }
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
    return retention === undefined
      ? null
      : new Housekeeping({ ...parts, ...retention, dataDir: dataFolder(), wake: () => this.#wake() })
  }

  #wake(): void {
    this.#engine?.wake()
    this.#scheduler?.wake()
  }

  #checkOpen(options: object = {}): void {
    if (this.#stopped !== null) throw new StoppedError()
    if (!isInTransaction(options)) checkNotInTransaction()
  }
}

const ignoreConflict = (error: unknown): void => {
  if (!(error instanceof Conflict)) throw error
}
