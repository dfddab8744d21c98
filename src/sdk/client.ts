// The client of a server, for another service or a serverless function: the same interface as `Ork`, with `fetch` only. It calls the routes
// through the client that the command line uses.

import type { Json, JsonObject } from "../core/values/json.ts"
import { isUuid } from "../core/model/ids.ts"
import { FUNCTION_FAILED, JOB_CANCELLED } from "../core/rules/messages.ts"
import { NAME } from "../core/model/names.ts"
import { isJobFinished } from "../core/rules/jobs/jobs.ts"
import { isRunClosed } from "../core/model/status.ts"
import { MAIN_TASK } from "../core/model/function.ts"
import {
  Client,
  ClientError,
  everyItem,
  type Job,
  type JobResult,
  type NewJob,
  type Run,
  type StreamItem,
} from "../protocol/client/client.ts"
import type { AnyFunctionDefinition, AnyTask, RetryOptions, SignalDefinition, TaskDefinition } from "./definitions.ts"
import { checkIsDefinition, checkIsTask } from "./check-definitions.ts"
import { checkScheduleName, checkText } from "./checks.ts"
import { type Duration, toMs } from "./duration.ts"
import { checkEnqueueAllOptions, checkEnqueueOptions, checkIsNew, checkRunOptions } from "./enqueue-options.ts"
import {
  CancelledError,
  ConflictError,
  InvalidInputError,
  noFunction,
  NotFoundError,
  OrkError,
  TaskFailedError,
  REPEAT,
  TimeoutError,
  UnavailableError,
} from "./errors.ts"
import {
  checkEventOptions,
  type EventOptions,
  eventsAreGone,
  isWanted,
  type OrkEvent,
  type Progress,
  RunNames,
} from "./events.ts"
import type { GraphResult } from "./graph/graph.ts"
import { workflowFields } from "./graph/call-fields.ts"
import { literalJson } from "./graph/literal.ts"
import { valueAt } from "./graph/refs.ts"
import { groupOf, jobLimitsOf } from "./job-limits.ts"
import { checkStatuses } from "./list-options.ts"
import { ANSWER, checkNames, CLIENT, LIST, RESULT, RETRY_WORK, SIGNAL } from "./option-names.ts"
import {
  idOf,
  type AnswerOptions,
  type Enqueueable,
  type EnqueueOptions,
  type JobState,
  type ListOptions,
  type Orkable,
  type ResultOptions,
  type ScheduleOptions,
  type Work,
  type WorkRef,
} from "./orkable.ts"
import { validate } from "./schema.ts"
import { paramsOf, toJson } from "./to-json.ts"

export type { Orkable, Work } from "./orkable.ts"
export { signal, task, workflow } from "./definitions.ts"

export interface ClientOptions {
  /** Address of the server. Default: ORK_URL, or http://127.0.0.1:4000. */
  url?: string
  /** An API key. Default: ORK_API_KEY. */
  key?: string
  /** Default: the global fetch. */
  fetch?: typeof fetch
}

/** Longest time that the server waits for a result in one request. Shorter than the transport waits for a response. */
const WAIT_MS = 20_000
/** The only task of a durable function. */
const MAIN: GraphResult = { task: MAIN_TASK, segments: [] }
const PAGE = 100

export class OrkClient implements Orkable {
  readonly #api: Client

  constructor(options: ClientOptions = {}) {
    checkNames(options, CLIENT, "OrkClient")
    const { url, key, fetch: given } = options
    const env = (globalThis as { process?: { env: { [name: string]: string | undefined } } }).process?.env ?? {}
    this.#api = new Client({
      url: url ?? env["ORK_URL"] ?? "http://127.0.0.1:4000",
      key: (key ?? env["ORK_API_KEY"]) || null,
      ...(given !== undefined && { fetch: given }),
    })
  }

  async enqueue<Input, Output>(
    definition: Enqueueable<Input, Output>,
    input: NoInfer<Input>,
    options: EnqueueOptions = {},
  ): Promise<Work<Output>> {
    checkIsDefinition(definition, "enqueue")
    await validate(definition.schema, input, `the input of ${definition.name}`)
    if (definition.kind === "task") {
      checkNoTransaction(options)
      checkEnqueueOptions(options)
      const query = { on_conflict: options.onConflict }
      const { job, created } = await unwrap(this.#api.submitJob(this.#newJob(definition, input, options), query))
      return this.#job(job, created) as Work<Output>
    }
    checkNoTransaction(options)
    checkRunOptions(options, `${definition.kind} ${definition.name}`)
    const priority = options.priority ?? (definition.kind === "workflow" ? definition.priority : undefined)
    const { run, created } = await unwrap(
      this.#api.trigger(definition.name, {
        params: paramsOf(input, definition.name),
        ...(priority !== undefined && { priority }),
        ...(options.key !== undefined && { idempotency_key: options.key }),
      }),
    )
    checkIsNew({ id: run.id, created }, options, definition.name)
    const result = definition.kind === "graph" ? definition.result : MAIN
    return this.#run(await this.#withError(run), created, result) as Work<Output>
  }

  async enqueueAll<Input, Output>(
    definition: TaskDefinition<Input, Output>,
    inputs: readonly NoInfer<Input>[],
    options: Omit<EnqueueOptions, "key"> = {},
  ): Promise<Work<Output>[]> {
    checkIsTask(definition)
    checkNoTransaction(options)
    checkEnqueueAllOptions(options)
    for (const [i, input] of inputs.entries()) await validate(definition.schema, input, `input ${i} of ${definition.name}`)
    const jobs = inputs.map((input) => this.#newJob(definition, input, options))
    if (jobs.length === 0) return []
    const created = await unwrap(this.#api.submitJobs(jobs, { on_conflict: options.onConflict }))
    return created.map((job) => this.#job(job, true) as Work<Output>)
  }

  #newJob(definition: AnyTask, input: unknown, options: EnqueueOptions): NewJob {
    const { name, expiresMs } = definition
    const group = groupOf(definition, input)
    const limits = jobLimitsOf(definition, group)
    return {
      name,
      ...callOf(definition),
      payload: toJson(input, `the input of ${name}`),
      priority: options.priority ?? definition.priority,
      ...(expiresMs !== null && { expires: ms(expiresMs) }),
      ...(options.key !== undefined && { idempotency_key: options.key }),
      ...(options.delay !== undefined && { delay: ms(toMs(options.delay, "delay")) }),
      ...(options.at !== undefined && { run_at: options.at.toISOString() }),
      ...(group !== null && { group }),
      ...(limits.length > 0 && { limits }),
    }
  }

  async get(id: string): Promise<Work<unknown> | null> {
    if (!isUuid(id)) return null
    const job = await orNull(this.#api.getJob(id))
    if (job !== null) return this.#job(job, false)
    const run = await orNull(this.#api.getRun(id))
    return run === null ? null : this.#run(await this.#withError(run), false)
  }

  async *list(options: ListOptions): AsyncGenerator<Work<unknown>> {
    checkNames(options, LIST, "list")
    const { def, status = [] } = options
    const name = typeof def === "string" ? def : def.name
    const isWorkflow = typeof def === "string" ? await this.#isWorkflow(def) : def.kind !== "task"
    checkStatuses(status, isWorkflow ? "run" : "job")
    yield* isWorkflow ? this.#listRuns(name, status) : this.#listJobs(name, status)
  }

  async #isWorkflow(name: string): Promise<boolean> {
    return NAME.test(name) && (await orNull(this.#api.getWorkflow(name))) !== null
  }

  async *#listRuns(workflow: string, status: NonNullable<ListOptions["status"]>): AsyncGenerator<Work<unknown>> {
    const page = (cursor: string | undefined) => unwrap(this.#api.listRuns({ workflow, limit: PAGE, cursor }))
    for await (const run of everyItem(page))
      if (status.length === 0 || status.includes(run.status)) yield this.#run(await this.#withError(run), false)
  }

  async *#listJobs(name: string, status: NonNullable<ListOptions["status"]>): AsyncGenerator<Work<unknown>> {
    const filter = { name, ...(status.length > 0 && { status: status.join(",").toUpperCase() }) }
    const page = (cursor: string | undefined) => unwrap(this.#api.listJobs({ ...filter, limit: PAGE, cursor }))
    for await (const job of everyItem(page)) yield this.#job(job, false)
  }

  /** Opens the stream of events at once, and again when its connection breaks. */
  events(options: EventOptions = {}): AsyncGenerator<OrkEvent> {
    checkEventOptions(options)
    const { after, signal } = options
    const items = this.#api.events({ ...(after !== undefined && { after }), ...(signal !== undefined && { signal }) })
    const first = items.next()
    first.catch(() => {})
    return this.#follow(items, first, options)
  }

  async *#follow(
    items: AsyncGenerator<StreamItem>,
    first: Promise<IteratorResult<StreamItem>>,
    options: EventOptions,
  ): AsyncGenerator<OrkEvent> {
    const names = new RunNames(async (id) => (await orNull(this.#api.getRun(id)))?.workflow ?? null)
    try {
      for (let item = await first; item.done !== true; item = await items.next()) {
        if (item.value.type === "gap") throw eventsAreGone(options.after ?? "the last one")
        const event = item.value.type === "event" ? await eventOf(item.value, names) : null
        if (event !== null && isWanted(event, options)) yield event
      }
    } catch (error) {
      throw error instanceof ClientError ? toOrkError(error) : error
    } finally {
      await items.return(undefined)
    }
  }

  async signal<Payload>(
    run: WorkRef,
    { name, schema }: SignalDefinition<Payload>,
    payload: NoInfer<Payload>,
    options: { key?: string } = {},
  ): Promise<boolean> {
    checkNames(options, SIGNAL, "signal")
    const { key } = options
    await validate(schema, payload, `the signal ${name}`)
    const id = idOf(run)
    const sent = { payload: toJson(payload, `the signal ${name}`), ...(key !== undefined && { key: checkText(key, "key") }) }
    if (!isUuid(id)) throw noFunction(id)
    return await unwrap(this.#api.sendSignal(id, name, sent))
  }

  approve(run: WorkRef, name: string, options?: AnswerOptions): Promise<void> {
    return this.#answer(run, name, true, options)
  }

  reject(run: WorkRef, name: string, options?: AnswerOptions): Promise<void> {
    return this.#answer(run, name, false, options)
  }

  async #answer(run: WorkRef, name: string, approved: boolean, options: AnswerOptions = {}): Promise<void> {
    checkNames(options, ANSWER, approved ? "approve" : "reject")
    const { comment, path } = options
    const id = idOf(run)
    const task = { runId: id, task: name, ...(path !== undefined && { path }) }
    await unwrap(this.#api.decideApproval(task, approved, comment))
  }

  async schedule<Input>(
    name: string,
    cron: string,
    definition: Enqueueable<Input, unknown>,
    input: NoInfer<Input>,
    options: ScheduleOptions = {},
  ): Promise<void> {
    checkIsDefinition(definition, "schedule")
    await validate(definition.schema, input, `the input of ${definition.name}`)
    // Cron expressions need a library, which other calls do not load.
    const { checkSchedule } = await import("./schedule-options.ts")
    const schedule = checkSchedule(name, cron, options)
    await this.#checkIsSchedule(name)
    const params = paramsOf(input, definition.name)
    if (definition.kind !== "graph") {
      const { kind, priority } = definition
      const call = { ...callOf(definition), priority, durable: kind === "workflow", params }
      return await unwrap(this.#api.putSchedule(name, { ...schedule, ...call }))
    }
    const workflow = {
      name,
      schedule,
      tasks: { [MAIN_TASK]: { ...workflowFields(definition.name), input: literalJson(params) } },
    }
    await unwrap(this.#api.deploy({ text: JSON.stringify(workflow), format: "json" }))
  }

  async unschedule(name: string): Promise<void> {
    await this.#checkIsSchedule(name)
    await orNull(this.#api.deleteWorkflow(name))
  }

  /** Throws for the name of a workflow that has no schedule: it would be replaced or removed. */
  async #checkIsSchedule(name: string): Promise<void> {
    checkScheduleName(name)
    const workflow = await orNull(this.#api.getWorkflow(name))
    if (workflow === null || workflow.schedules.length > 0) return
    throw new ConflictError(`${name} is the name of a workflow; give its schedule another name, such as ${name}-daily`)
  }

  // -- jobs and runs -----------------------------------------------------------------------------------------------------------------

  #job(job: Job, created: boolean): Work<unknown> {
    return {
      id: job.id,
      name: job.name,
      created,
      status: job.status.toLowerCase() as JobState,
      input: job.payload as Json,
      attempts: job.attempt_count,
      error: job.error,
      progress: job.progress as Progress | null,
      result: (options) => this.#jobResult(job, options),
      cancel: async () => void (await unwrap(this.#api.cancelJob(job.id))),
      retry: async (options = {}) => {
        checkNames(options, RETRY_WORK, "retry")
        const { from } = options
        if (from !== undefined) throw new ConflictError(`job ${job.id} has no steps to retry from`)
        await unwrap(this.#api.retryJob(job.id))
      },
      refresh: async () => this.#job(await unwrap(this.#api.getJob(job.id)), created),
    }
  }

  async #jobResult({ id, name }: Job, options: ResultOptions = {}): Promise<unknown> {
    const read = async (waitMs: number, abortable: { signal?: AbortSignal }): Promise<JobResult | null> => {
      const result = await this.#api.jobResult(id, { wait: ms(waitMs), ...abortable })
      return isJobFinished(result.status) ? result : null
    }
    const ended = await this.#wait(id, read, options)
    if (ended.status === "COMPLETED") return ended.output_object === null ? ended.output : await unwrap(this.#api.jobOutput(id))
    if (ended.error === JOB_CANCELLED) throw new CancelledError(`job ${id} of ${name} was cancelled`)
    throw new TaskFailedError(name, id, ended.error ?? "no reason is known")
  }

  /** Returns a run as work. `result`: what a graph returns; null: not known. */
  #run(run: Run, created: boolean, result: GraphResult | null = null): Work<unknown> {
    return {
      id: run.id,
      name: run.workflow,
      created,
      status: run.status,
      input: run.params as JsonObject,
      attempts: 1,
      error: run.error,
      progress: null,
      result: (options) => this.#runResult(run, result, options),
      cancel: async () => void (await unwrap(this.#api.cancelRun(run.id))),
      retry: async (options = {}) => {
        checkNames(options, RETRY_WORK, "retry")
        const { from } = options
        await unwrap(this.#api.retryRun(run.id, from === undefined ? {} : { step: { name: from } }))
      },
      refresh: async () => this.#run(await this.#withError(await unwrap(this.#api.getRun(run.id))), created, result),
    }
  }

  /** Returns a run with the error of its function. */
  async #withError(run: Run): Promise<Run> {
    return run.error === FUNCTION_FAILED ? { ...run, error: await this.#failureOf(run) } : run
  }

  async #runResult({ id, workflow }: Run, result: GraphResult | null, options: ResultOptions = {}): Promise<unknown> {
    let pauseMs = 0
    const read = async (waitMs: number, abortable: { signal?: AbortSignal }): Promise<Run | null> => {
      await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, waitMs)))
      pauseMs = Math.min(pauseMs + 100, 2000)
      const run = await this.#api.getRun(id, abortable)
      return isRunClosed(run.status) ? run : null
    }
    const ended = await this.#wait(id, read, options)
    if (ended.status === "cancelled") throw new CancelledError(`run ${id} of ${workflow} was cancelled`)
    if (ended.status === "failed") throw new TaskFailedError(workflow, id, await this.#failureOf(ended))
    if (result !== null) return valueAt(await this.#output(id, result.task), result.segments)
    const { tasks } = await unwrap(this.#api.runGraph(id))
    const names = tasks.flatMap(({ name, group, hook }) => (group === null && hook === null ? [name] : []))
    if (names.length === 1 && names[0] === MAIN.task) return await this.#output(id, MAIN.task)
    const outputs: JsonObject = {}
    for (const name of names) outputs[name] = await this.#output(id, name)
    return outputs
  }

  /** Returns why a run failed: the error of a function, or which task of a graph failed and why. */
  async #failureOf({ id, error }: Run): Promise<string> {
    const page = (cursor: string | undefined) => unwrap(this.#api.listTasks(id, cursor === undefined ? {} : { cursor }))
    for await (const task of everyItem(page)) {
      if (task.status !== "failed" || task.error === null) continue
      return task.name === MAIN_TASK || error === null ? task.error : `${error}: ${task.error}`
    }
    return error ?? "no reason is known"
  }

  async #output(runId: string, task: string): Promise<Json> {
    return await orNull(this.#api.taskOutput({ runId, task }))
  }

  async #wait<T>(
    id: string,
    read: (waitMs: number, abortable: { signal?: AbortSignal }) => Promise<T | null>,
    options: ResultOptions,
  ): Promise<T> {
    checkNames(options, RESULT, "result")
    const { timeout, signal } = options
    const deadline = timeout === undefined ? Number.POSITIVE_INFINITY : Date.now() + toMs(timeout, "timeout")
    const abortable = signal === undefined ? {} : { signal }
    for (;;) {
      signal?.throwIfAborted()
      const leftMs = Math.max(0, deadline - Date.now())
      const ended = await unwrap(read(Math.min(leftMs, WAIT_MS), abortable), signal)
      if (ended !== null) return ended
      if (Date.now() >= deadline) throw new TimeoutError(`${id} has not ended within ${String(timeout)}`)
    }
  }
}

/** Returns the response to a request. Throws an OrkError, or the reason of an aborted signal. */
const unwrap = async <T>(response: Promise<T>, signal?: AbortSignal): Promise<T> => {
  try {
    return await response
  } catch (error) {
    signal?.throwIfAborted()
    throw error instanceof ClientError ? toOrkError(error) : error
  }
}

/** Returns the response to a request, or null if what it asks for does not exist. */
const orNull = async <T>(response: Promise<T>): Promise<T | null> => {
  try {
    return await unwrap(response)
  } catch (error) {
    if (error instanceof NotFoundError) return null
    throw error
  }
}

const eventOf = async ({ id, event: body }: Extract<StreamItem, { type: "event" }>, names: RunNames): Promise<OrkEvent> => ({
  id,
  type: body.event,
  work: body.job_id ?? body.run_id ?? "",
  name: body.run_id === null ? (body.name ?? null) : await names.of(body.run_id),
  task: body.task,
  path: body.path ?? "",
  status: body.status.toLowerCase() as OrkEvent["status"],
  attempt: body.attempt,
  at: new Date(body.at),
  error: body.error ?? null,
  progress: (body.progress as Progress | undefined) ?? null,
})

/** Returns the fields of requests that say which function is called, and how. */
const callOf = ({ functionName, queue, retry, timeoutMs }: AnyFunctionDefinition) => ({
  function: functionName,
  queue,
  retry: {
    max_attempts: retry.maxAttempts,
    backoff: retry.backoff,
    base_delay: ms(retry.baseDelayMs),
    max_delay: ms(retry.maxDelayMs),
    jitter: retry.jitter,
  },
  ...(timeoutMs !== null && { timeout: ms(timeoutMs) }),
})

/** Statuses of a server whose database is away, and of a proxy whose server is. */
const UNAVAILABLE: ReadonlySet<number> = new Set([502, 503, 504])

const toOrkError = (error: ClientError): OrkError => {
  const { code, status, message, details } = error
  if (code === "UNREACHABLE" || (status !== null && UNAVAILABLE.has(status)))
    return new UnavailableError(`${message}; ${REPEAT}`, { cause: error })
  if (status === 404) return new NotFoundError(message)
  if (status === 409) return new ConflictError(message)
  if (status === 400 && details.length > 0) {
    return new InvalidInputError(
      "the request",
      details.map(({ path, message: problem }) => ({ path, message: problem })),
    )
  }
  return new OrkError(message, { cause: error })
}

const checkNoTransaction = (options: object): void => {
  if ("tx" in options && options.tx !== undefined)
    throw new TypeError("an OrkClient enqueues in no transaction (tx): use Ork on the database of the transaction")
}

const ms = (value: number): string => `${Math.round(value)}ms`

export type { Duration, RetryOptions }
