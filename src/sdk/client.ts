// The client of a server, for another service or a serverless function: the same interface as `Ork`, with `fetch` only. The command line
// sends its requests through the same transport.

import type { Json, JsonObject } from "../core/values/json.ts"
import { ClientError } from "../protocol/client/errors.ts"
import { followEvents, type StreamItem } from "../protocol/client/streams.ts"
import { type Request, Transport } from "../protocol/client/transport.ts"
import type { AnyTask, RetryOptions, SignalDefinition, TaskDefinition } from "./definitions.ts"
import { type Duration, toMs } from "./duration.ts"
import {
  CancelledError,
  ConflictError,
  InvalidInputError,
  NotFoundError,
  OrkError,
  TaskFailedError,
  TimeoutError,
} from "./errors.ts"
import { type EventOptions, eventsAreGone, isWanted, type OrkEvent, type Progress, RunNames } from "./events.ts"
import type { GraphResult } from "./graph/graph.ts"
import { follow } from "./graph/refs.ts"
import { jobLimitsOf } from "./job-limits.ts"
import type {
  AnswerOptions,
  Enqueueable,
  EnqueueOptions,
  JobState,
  ListOptions,
  Orkable,
  ResultOptions,
  RunState,
  ScheduleOptions,
  Work,
} from "./orkable.ts"
import { validate } from "./schema.ts"

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
const CANCELLED = "cancelled"
/** The only task of a durable function. */
const MAIN: GraphResult = { task: "main", steps: [] }
const PAGE = 100

interface JobBody {
  id: string
  name: string
  status: string
  payload: Json
  attempt_count: number
  error: string | null
  progress: Progress | null
}

interface RunBody {
  id: string
  workflow: string
  status: RunState
  params: JsonObject
  error: string | null
}

interface ResultBody {
  status: string
  output: Json
  output_object: { key: string } | null
  error: string | null
}

interface Page<Item> {
  items: Item[]
  next_cursor: string | null
}

export class OrkClient implements Orkable {
  readonly #http: Transport

  constructor({ url, key, fetch: given }: ClientOptions = {}) {
    const env = (globalThis as { process?: { env: { [name: string]: string | undefined } } }).process?.env ?? {}
    this.#http = new Transport({
      url: (url ?? env["ORK_URL"] ?? "http://127.0.0.1:4000").replace(/\/+$/, ""),
      key: (key ?? env["ORK_API_KEY"]) || null,
      ...(given !== undefined && { fetch: given }),
    })
  }

  async enqueue<Input, Output>(
    definition: Enqueueable<Input, Output>,
    input: Input,
    options: EnqueueOptions = {},
  ): Promise<Work<Output>> {
    await validate(definition.schema, input, `the input of ${definition.name}`)
    if (definition.kind === "task") {
      const { status, body } = await this.#send<JobBody>({
        method: "POST",
        path: "/jobs",
        query: { on_conflict: options.onConflict },
        body: this.#newJob(definition, input, options),
        // Sent twice, the second one would find the key of the first.
        repeatable: options.key !== undefined && options.onConflict !== "error",
      })
      return this.#job(body, status === 201) as Work<Output>
    }
    const path = `/workflows/${encodeURIComponent(definition.name)}/runs`
    const priority = options.priority ?? (definition.kind === "workflow" ? definition.priority : undefined)
    const { status, body } = await this.#send<RunBody>({
      method: "POST",
      path,
      body: {
        params: (input ?? {}) as JsonObject,
        ...(priority !== undefined && { priority }),
        ...(options.key !== undefined && { idempotency_key: options.key }),
      },
      repeatable: options.key !== undefined,
    })
    const result = definition.kind === "graph" ? definition.result : MAIN
    return this.#run(body, status === 201, result) as Work<Output>
  }

  async enqueueAll<Input, Output>(
    definition: TaskDefinition<Input, Output>,
    inputs: readonly Input[],
    options: Omit<EnqueueOptions, "key"> = {},
  ): Promise<Work<Output>[]> {
    for (const [i, input] of inputs.entries()) await validate(definition.schema, input, `input ${i} of ${definition.name}`)
    const jobs = inputs.map((input) => this.#newJob(definition, input, options))
    const { body } = await this.#send<{ items: JobBody[] }>({
      method: "POST",
      path: "/jobs/batch",
      query: { on_conflict: options.onConflict },
      body: { jobs },
    })
    return body.items.map((job) => this.#job(job, true) as Work<Output>)
  }

  #newJob(definition: AnyTask, input: unknown, options: EnqueueOptions): JsonObject {
    const { name, queue, retry, timeoutMs, expiresMs } = definition
    const group = definition.group === null ? null : String(definition.group(input as never))
    const limits = jobLimitsOf(definition, group)
    return {
      name,
      queue,
      function: name,
      payload: (input ?? null) as Json,
      priority: options.priority ?? definition.priority,
      retry: {
        max_attempts: retry.maxAttempts,
        backoff: retry.backoff,
        base_delay: ms(retry.baseDelayMs),
        max_delay: ms(retry.maxDelayMs),
        jitter: retry.jitter,
      },
      ...(timeoutMs !== null && { timeout: ms(timeoutMs) }),
      ...(expiresMs !== null && { expires: ms(expiresMs) }),
      ...(options.key !== undefined && { idempotency_key: options.key }),
      ...(options.delay !== undefined && { delay: ms(toMs(options.delay, "delay")) }),
      ...(options.at !== undefined && { run_at: options.at.toISOString() }),
      ...(group !== null && { group }),
      ...(limits.length > 0 && { limits }),
    }
  }

  async get(id: string): Promise<Work<unknown> | null> {
    const path = encodeURIComponent(id)
    const job = await this.#find<JobBody>(`/jobs/${path}`)
    if (job !== null) return this.#job(job, false)
    const run = await this.#find<RunBody>(`/runs/${path}`)
    return run === null ? null : this.#run(run, false)
  }

  async *list({ def, status = [] }: ListOptions): AsyncGenerator<Work<unknown>> {
    const name = typeof def === "string" ? def : def.name
    const isWorkflow =
      typeof def === "string" ? (await this.#find(`/workflows/${encodeURIComponent(def)}`)) !== null : def.kind !== "task"
    const hasStatus = (found: string): boolean =>
      status.length === 0 || (status as readonly string[]).includes(found.toLowerCase())
    const jobFilter = { name, ...(status.length > 0 && { status: status.join(",").toUpperCase() }) }
    for (let cursor = ""; ;) {
      const filter = isWorkflow ? { workflow: name } : jobFilter
      const query = { ...filter, limit: PAGE, ...(cursor !== "" && { cursor }) }
      const { body } = await this.#send<Page<JobBody & RunBody>>({ path: isWorkflow ? "/runs" : "/jobs", query })
      for (const item of body.items)
        if (hasStatus(item.status)) yield isWorkflow ? this.#run(item, false) : this.#job(item, false)
      if (body.next_cursor === null) return
      cursor = body.next_cursor
    }
  }

  /** The stream is opened at once, and again when its connection breaks. */
  events(options: EventOptions = {}): AsyncGenerator<OrkEvent> {
    const { after, signal } = options
    const items = followEvents(this.#http, { ...(after !== undefined && { after }), ...(signal !== undefined && { signal }) })
    const first = items.next()
    first.catch(() => {})
    return this.#follow(items, first, options)
  }

  async *#follow(
    items: AsyncGenerator<StreamItem>,
    first: Promise<IteratorResult<StreamItem>>,
    options: EventOptions,
  ): AsyncGenerator<OrkEvent> {
    const names = new RunNames(async (id) => (await this.#find<RunBody>(`/runs/${id}`))?.workflow ?? null)
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
    run: string | Pick<Work<unknown>, "id">,
    { name, schema }: SignalDefinition<Payload>,
    payload: Payload,
    { key }: { key?: string } = {},
  ): Promise<boolean> {
    await validate(schema, payload, `the signal ${name}`)
    const id = typeof run === "string" ? run : run.id
    const path = `/runs/${encodeURIComponent(id)}/signals/${encodeURIComponent(name)}`
    const { body } = await this.#send<{ sent: boolean }>({
      method: "POST",
      path,
      body: { payload: payload as Json, ...(key !== undefined && { key }) },
      repeatable: key !== undefined,
    })
    return body.sent
  }

  approve(run: string | Pick<Work<unknown>, "id">, name: string, options?: AnswerOptions): Promise<void> {
    return this.#answer(run, name, "approve", options)
  }

  reject(run: string | Pick<Work<unknown>, "id">, name: string, options?: AnswerOptions): Promise<void> {
    return this.#answer(run, name, "reject", options)
  }

  async #answer(
    run: string | Pick<Work<unknown>, "id">,
    name: string,
    verb: "approve" | "reject",
    { comment, path }: AnswerOptions = {},
  ): Promise<void> {
    const id = typeof run === "string" ? run : run.id
    await this.#send({
      method: "POST",
      path: `/runs/${encodeURIComponent(id)}/tasks/${encodeURIComponent(name)}/${verb}`,
      body: {
        ...(comment !== undefined && { comment }),
        ...(path !== undefined && { path }),
      },
    })
  }

  async schedule<Input>(
    name: string,
    cron: string,
    definition: Enqueueable<Input, unknown>,
    input: Input,
    { timezone = "UTC", catchup = "none", overlap = "skip" }: ScheduleOptions = {},
  ): Promise<void> {
    await validate(definition.schema, input, `the input of ${definition.name}`)
    const main =
      definition.kind === "graph"
        ? { executor: "workflow", workflow: definition.name }
        : { executor: "node", function: definition.name, queue: definition.queue }
    await this.#send({
      method: "POST",
      path: "/workflows",
      body: {
        name,
        schedule: { cron, timezone, catchup, overlap },
        tasks: { main: { ...main, input: (input ?? {}) as JsonObject } },
      },
    })
  }

  async unschedule(name: string): Promise<void> {
    await this.#send({ method: "DELETE", path: `/workflows/${encodeURIComponent(name)}` })
  }

  // -- jobs and runs -----------------------------------------------------------------------------------------------------------------

  #job(job: JobBody, created: boolean): Work<unknown> {
    const path = `/jobs/${job.id}`
    return {
      id: job.id,
      name: job.name,
      created,
      status: job.status.toLowerCase() as JobState,
      input: job.payload,
      attempts: job.attempt_count,
      error: job.error,
      progress: job.progress,
      result: (options) => this.#jobResult(job, options),
      cancel: async () => void (await this.#send({ method: "POST", path: `${path}/cancel` })),
      retry: async ({ from } = {}) => {
        if (from !== undefined) throw new ConflictError(`job ${job.id} has no steps to retry from`)
        await this.#send({ method: "POST", path: `${path}/retry` })
      },
      refresh: async () => this.#job((await this.#send<JobBody>({ path })).body, false),
    }
  }

  async #jobResult({ id, name }: JobBody, options: ResultOptions = {}): Promise<unknown> {
    const read = async (waitMs: number): Promise<ResultBody | null> => {
      const { body } = await this.#send<ResultBody>({
        path: `/jobs/${id}/result`,
        query: { wait: ms(waitMs) },
        ...(options.signal !== undefined && { signal: options.signal }),
      })
      return ["COMPLETED", "FAILED", "BLOCKED"].includes(body.status) ? body : null
    }
    const ended = await this.#wait(id, read, options)
    if (ended.status === "COMPLETED") return ended.output
    if (ended.error === CANCELLED) throw new CancelledError(`job ${id} of ${name} was cancelled`)
    throw new TaskFailedError(name, id, ended.error ?? "no reason is known")
  }

  /** `result`: what a graph returns; null: not known. */
  #run(run: RunBody, created: boolean, result: GraphResult | null = null): Work<unknown> {
    const path = `/runs/${run.id}`
    return {
      id: run.id,
      name: run.workflow,
      created,
      status: run.status,
      input: run.params,
      attempts: 1,
      error: run.error,
      progress: null,
      result: (options) => this.#runResult(run, result, options),
      cancel: async () => void (await this.#send({ method: "POST", path: `${path}/cancel` })),
      retry: async ({ from } = {}) =>
        void (await this.#send({
          method: "POST",
          path: `${path}/retry`,
          ...(from !== undefined && { body: { step: { name: from } } }),
        })),
      refresh: async () => this.#run((await this.#send<RunBody>({ path })).body, false, result),
    }
  }

  async #runResult({ id, workflow }: RunBody, result: GraphResult | null, options: ResultOptions = {}): Promise<unknown> {
    let pauseMs = 0
    const read = async (waitMs: number): Promise<RunBody | null> => {
      await new Promise((resolve) => setTimeout(resolve, Math.min(pauseMs, waitMs)))
      pauseMs = Math.min(pauseMs + 100, 2000)
      const { signal } = options
      const { body } = await this.#send<RunBody>({ path: `/runs/${id}`, ...(signal !== undefined && { signal }) })
      return body.status === "pending" || body.status === "running" ? null : body
    }
    const ended = await this.#wait(id, read, options)
    if (ended.status === "cancelled") throw new CancelledError(`run ${id} of ${workflow} was cancelled`)
    if (ended.status === "failed") throw new TaskFailedError(workflow, id, ended.error ?? "no reason is known")
    if (result !== null) return follow(await this.#output(id, result.task), result.steps)
    const { body } = await this.#send<{ tasks: { name: string; group: string | null; hook: string | null }[] }>({
      path: `/runs/${id}/graph`,
    })
    const names = body.tasks.flatMap(({ name, group, hook }) => (group === null && hook === null ? [name] : []))
    if (names.length === 1 && names[0] === MAIN.task) return await this.#output(id, MAIN.task)
    const outputs: JsonObject = {}
    for (const name of names) outputs[name] = await this.#output(id, name)
    return outputs
  }

  async #output(runId: string, task: string): Promise<Json> {
    return await this.#find<Json>(`/runs/${runId}/tasks/${encodeURIComponent(task)}/output`)
  }

  async #wait<T>(id: string, read: (waitMs: number) => Promise<T | null>, { timeout, signal }: ResultOptions): Promise<T> {
    const deadline = timeout === undefined ? Number.POSITIVE_INFINITY : Date.now() + toMs(timeout, "timeout")
    for (;;) {
      signal?.throwIfAborted()
      const leftMs = Math.max(0, deadline - Date.now())
      const found = await read(Math.min(leftMs, WAIT_MS))
      if (found !== null) return found
      if (Date.now() >= deadline) throw new TimeoutError(`${id} has not ended within ${String(timeout)}`)
    }
  }

  // -- requests ----------------------------------------------------------------------------------------------------------------------

  async #find<Body>(path: string): Promise<Body | null> {
    try {
      return (await this.#send<Body>({ path })).body
    } catch (error) {
      if (error instanceof NotFoundError) return null
      throw error
    }
  }

  async #send<Body>(request: Request): Promise<{ status: number; body: Body }> {
    try {
      return await this.#http.reply<Body>(request)
    } catch (error) {
      request.signal?.throwIfAborted()
      throw error instanceof ClientError ? toOrkError(error) : error
    }
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

const toOrkError = (error: ClientError): OrkError => {
  const { status, message, details } = error
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

const ms = (value: number): string => `${Math.round(value)}ms`

export type { Duration, RetryOptions }
