// Typed client of the REST API, with one method per route. The command line and `OrkClient` of the SDK use it. Every method throws
// ClientError when the request is rejected or gets no response.

import type { z } from "zod"
import type * as workflows from "../api/workflows.ts"
import type {
  Artifacts,
  AuditEntry,
  Backfill,
  CreatedKey,
  Explanation,
  Job,
  JobQuery,
  JobResult,
  Key,
  LogLine,
  NewFunctionSchedule,
  NewJob,
  NewJobQuery,
  NewKey,
  NewRun,
  Page,
  Queue,
  QueueSettings,
  RetryPlan,
  RetryStart,
  Run,
  RunGraph,
  RunQuery,
  Schedule,
  Session,
  Stats,
  Task,
  Validation,
  Worker,
  Workflow,
  WorkflowSummary,
  WorkflowVersion,
} from "../api/types.ts"
import {
  type EventsRequest,
  type FollowLogRequest,
  followEvents,
  followLog,
  followLogLines,
  instanceQuery,
  type StreamItem,
  taskRoute,
  type TaskAddress,
} from "./streams.ts"
import type { ByteStream } from "./sse.ts"
import type { Json } from "../../core/values/json.ts"
import { omitUndefined } from "../../core/values/omit-undefined.ts"
import { Transport, type TransportOptions } from "./transport.ts"

export type * from "../api/types.ts"
export type { ByteStream } from "./sse.ts"
export { ClientError, type ClientErrorCode } from "./errors.ts"
export type { EventsRequest, FollowLogRequest, LogEvent, StreamItem, TaskAddress } from "./streams.ts"

interface Abortable {
  signal?: AbortSignal
}

export interface DefinitionText {
  text: string
  format: "yaml" | "json"
}

export type ClientOptions = Omit<TransportOptions, "url" | "key"> & { url: string; key?: string | null }

const textOf = ({ text, format }: DefinitionText) => ({ content: text, type: `application/${format}` })

const segment = (text: string): string => encodeURIComponent(text)

export class Client {
  readonly #http: Transport

  constructor({ url, key = null, ...rest }: ClientOptions) {
    this.#http = new Transport({ ...rest, url: url.replace(/\/+$/, ""), key })
  }

  get url(): string {
    return this.#http.url
  }

  // -- workflows -----------------------------------------------------------------------------------------------------------------

  listWorkflows(
    query: { search?: string; tag?: string; limit?: number; cursor?: string } = {},
  ): Promise<Page<WorkflowSummary>> {
    return this.#http.json({ path: "/workflows", query })
  }

  getWorkflow(name: string): Promise<Workflow> {
    return this.#http.json({ path: `/workflows/${segment(name)}` })
  }

  /** Deletes a workflow; its runs are kept. */
  async deleteWorkflow(name: string): Promise<void> {
    await this.#http.json({ method: "DELETE", path: `/workflows/${segment(name)}` })
  }

  listVersions(name: string, query: { limit?: number; cursor?: string } = {}): Promise<Page<WorkflowVersion>> {
    return this.#http.json({ path: `/workflows/${segment(name)}/versions`, query })
  }

  /** Deploys a definition; with `ifNew`, only when there is no workflow of its name. `created`: the workflow is new. */
  async deploy(
    definition: DefinitionText,
    options: { ifNew?: boolean; bundle?: string } = {},
  ): Promise<{ workflow: Workflow; created: boolean }> {
    const { status, body } = await this.#http.reply<Workflow>({
      method: "POST",
      path: "/workflows",
      query: { bundle: options.bundle },
      text: textOf(definition),
      ...(options.ifNew === true && { headers: { "if-none-match": "*" } }),
    })
    return { workflow: body, created: status === 201 }
  }

  /** Creates or changes a schedule of a function of a program. */
  async putSchedule(name: string, schedule: NewFunctionSchedule): Promise<void> {
    await this.#http.json({ method: "PUT", path: `/schedules/${segment(name)}`, body: schedule, repeatable: true })
  }

  validate(definition: DefinitionText, options: { bundle?: string } = {}): Promise<Validation> {
    const text = textOf(definition)
    const query = { bundle: options.bundle }
    return this.#http.json({ method: "POST", path: "/workflows/validate", query, text, repeatable: true })
  }

  /** Uploads the files of a definition, which must be done before it is deployed. */
  async putBundle({ hash, bytes }: { hash: string; bytes: Uint8Array }): Promise<void> {
    await this.#http.json({ method: "PUT", path: `/bundles/${segment(hash)}`, bytes, repeatable: true })
  }

  /** Starts a run. With an idempotency key the request is retried, and `created` is false when the key has a run already. */
  async trigger(name: string, run: NewRun = {}): Promise<{ run: Run; created: boolean }> {
    const { status, body } = await this.#http.reply<Run>({
      method: "POST",
      path: `/workflows/${segment(name)}/runs`,
      body: run,
      repeatable: run.idempotency_key != null,
    })
    return { run: body, created: status === 201 }
  }

  pauseWorkflow(name: string, paused: boolean): Promise<Workflow> {
    return this.#http.json({ method: "POST", path: `/workflows/${segment(name)}/${paused ? "pause" : "resume"}` })
  }

  backfill(name: string, body: z.input<typeof workflows.backfillBody>): Promise<Backfill> {
    return this.#http.json({ method: "POST", path: `/workflows/${segment(name)}/backfill`, body })
  }

  listSchedules(query: { workflow?: string; limit?: number; cursor?: string } = {}): Promise<Page<Schedule>> {
    return this.#http.json({ path: "/schedules", query })
  }

  // -- runs ----------------------------------------------------------------------------------------------------------------------

  listRuns(query: RunQuery = {}): Promise<Page<Run>> {
    return this.#http.json({ path: "/runs", query })
  }

  /** Reads a run. `id`: an id, or `WORKFLOW#NUMBER`. */
  getRun(id: string, options: Abortable = {}): Promise<Run> {
    return this.#http.json({ path: `/runs/${segment(id)}`, ...options })
  }

  /** Sends a signal to a durable function. Returns false when one with this key was sent before. */
  async sendSignal(runId: string, name: string, body: { payload: Json; key?: string }): Promise<boolean> {
    const path = `/runs/${segment(runId)}/signals/${segment(name)}`
    const repeatable = body.key !== undefined
    return (await this.#http.json<{ sent: boolean }>({ method: "POST", path, body, repeatable })).sent
  }

  /** Returns the graph of the run's own workflow version, with the status of each task. */
  runGraph(id: string): Promise<RunGraph> {
    return this.#http.json({ path: `/runs/${id}/graph` })
  }

  /** Returns the run as one JSON document: protocol/api/run-export.ts. */
  async exportRun(id: string): Promise<ByteStream> {
    return (await this.#http.open({ path: `/runs/${id}/export` })).body!
  }

  async deleteRun(id: string): Promise<void> {
    await this.#http.json({ method: "DELETE", path: `/runs/${id}` })
  }

  cancelRun(id: string): Promise<Run> {
    return this.#http.json({ method: "POST", path: `/runs/${id}/cancel` })
  }

  pauseRun(id: string, paused: boolean): Promise<Run> {
    return this.#http.json({ method: "POST", path: `/runs/${id}/${paused ? "pause" : "resume"}` })
  }

  retryRun(id: string, start: RetryStart = {}): Promise<Run> {
    return this.#http.json({ method: "POST", path: `/runs/${id}/retry`, body: start })
  }

  /** Returns what a retry would run again. */
  planRetry(id: string, start: RetryStart = {}): Promise<RetryPlan> {
    const body = { plan: true, ...start }
    return this.#http.json({ method: "POST", path: `/runs/${id}/retry`, body, repeatable: true })
  }

  async explain(id: string, task?: string): Promise<Explanation[]> {
    return (await this.#http.json<{ items: Explanation[] }>({ path: `/runs/${id}/explain`, query: { task } })).items
  }

  // -- tasks ---------------------------------------------------------------------------------------------------------------------

  listTasks(runId: string, query: { name?: string; limit?: number; cursor?: string } = {}): Promise<Page<Task>> {
    return this.#http.json({ path: `/runs/${runId}/tasks`, query })
  }

  getTask(task: TaskAddress): Promise<Task> {
    return this.#http.json({ path: taskRoute(task), query: instanceQuery(task) })
  }

  /** Returns the whole output of a task. */
  taskOutput(task: TaskAddress): Promise<Json> {
    return this.#http.json({ path: `${taskRoute(task)}/output`, query: instanceQuery(task) })
  }

  retryTask(task: TaskAddress): Promise<Run> {
    return this.#http.json({ method: "POST", path: `${taskRoute(task)}/retry`, query: instanceQuery(task) })
  }

  /** Returns what a retry of one instance would run again. */
  planTaskRetry(task: TaskAddress): Promise<RetryPlan> {
    const query = instanceQuery(task)
    return this.#http.json({ method: "POST", path: `${taskRoute(task)}/retry`, query, body: { plan: true }, repeatable: true })
  }

  /** Approves or rejects a task that waits for approval. */
  decideApproval({ path, label, ...task }: TaskAddress, approved: boolean, comment?: string): Promise<Task> {
    const verb = approved ? "approve" : "reject"
    const body = omitUndefined({ comment, path, label })
    return this.#http.json({ method: "POST", path: `${taskRoute(task)}/${verb}`, body })
  }

  /** Returns the log up to now. A negative offset counts from the end. */
  async readLog(task: TaskAddress, options: { attempt?: number; offset?: number } = {}): Promise<ByteStream> {
    const response = await this.#http.open({ path: `${taskRoute(task)}/logs`, query: { ...instanceQuery(task), ...options } })
    return response.body!
  }

  async *readLogLines(task: TaskAddress, options: { attempt?: number; offset?: number } = {}): AsyncGenerator<LogLine> {
    const query = { ...instanceQuery(task), ...options }
    const { body } = await this.#http.open({ path: `${taskRoute(task)}/logs`, query, headers: { accept: NDJSON } })
    yield* linesOf(body!)
  }

  /** Lists the artifacts that an attempt has stored, by default the latest. */
  listArtifacts(task: TaskAddress, options: { attempt?: number } = {}): Promise<Artifacts> {
    return this.#http.json({ path: `${taskRoute(task)}/artifacts`, query: { ...instanceQuery(task), ...options } })
  }

  async readArtifact(task: TaskAddress, options: { file: string; attempt?: number }): Promise<ByteStream> {
    const query = { ...instanceQuery(task), ...options }
    return (await this.#http.open({ path: `${taskRoute(task)}/artifacts/content`, query })).body!
  }

  followLog(request: FollowLogRequest): AsyncGenerator<Uint8Array> {
    return followLog(this.#http, request)
  }

  followLogLines(request: FollowLogRequest): AsyncGenerator<LogLine> {
    return followLogLines(this.#http, request)
  }

  // -- events --------------------------------------------------------------------------------------------------------------------

  /** Yields events; reconnects after a broken connection and continues after the last event. */
  events(request: EventsRequest = {}): AsyncGenerator<StreamItem> {
    return followEvents(this.#http, request)
  }

  /** Returns the id of the current position: all events of actions after this call have a later id. */
  async position(): Promise<string> {
    for await (const item of this.events()) {
      if (item.type === "position" || item.type === "event") return item.id
    }
    throw new Error("the event stream ended without a position")
  }

  // -- jobs and queues -----------------------------------------------------------------------------------------------------------

  listJobs(query: JobQuery = {}): Promise<Page<Job>> {
    return this.#http.json({ path: "/jobs", query })
  }

  getJob(id: string): Promise<Job> {
    return this.#http.json({ path: `/jobs/${segment(id)}` })
  }

  /** Creates a job. With an idempotency key the request is retried, and `created` is false when the key has a job already. */
  async submitJob(job: NewJob, query: NewJobQuery = {}): Promise<{ job: Job; created: boolean }> {
    const { status, body } = await this.#http.reply<Job>({
      method: "POST",
      path: "/jobs",
      query,
      body: job,
      // Sent twice, the second one would find the key of the first.
      repeatable: job.idempotency_key != null && query.on_conflict !== "error",
    })
    return { job: body, created: status === 201 }
  }

  async submitJobs(list: NewJob[], query: NewJobQuery = {}): Promise<Job[]> {
    const body = { jobs: list }
    return (await this.#http.json<{ items: Job[] }>({ method: "POST", path: "/jobs/batch", query, body })).items
  }

  cancelJob(id: string): Promise<Job> {
    return this.#http.json({ method: "POST", path: `/jobs/${id}/cancel` })
  }

  /** Runs a FAILED job again. */
  retryJob(id: string): Promise<Job> {
    return this.#http.json({ method: "POST", path: `/jobs/${id}/retry` })
  }

  async explainJob(id: string): Promise<Explanation[]> {
    return (await this.#http.json<{ items: Explanation[] }>({ path: `/jobs/${id}/explain` })).items
  }

  async deleteJob(id: string): Promise<void> {
    await this.#http.json({ method: "DELETE", path: `/jobs/${id}` })
  }

  /** Returns the result of a job; with `wait`, such as `30s`, when the job has finished or after that time. */
  jobResult(id: string, { wait, ...options }: Abortable & { wait?: string } = {}): Promise<JobResult> {
    return this.#http.json({ path: `/jobs/${id}/result`, query: { wait }, ...options })
  }

  /** Returns the whole output of a job. */
  jobOutput(id: string): Promise<Json> {
    return this.#http.json({ path: `/jobs/${id}/output` })
  }

  /** Returns the log of a job; with `follow`, until the job finishes. */
  async jobLog(id: string, options: { offset?: number; follow?: boolean } = {}): Promise<ByteStream> {
    return (await this.#http.open({ path: `/jobs/${id}/logs`, query: options })).body!
  }

  async *jobLogLines(id: string, options: { follow?: boolean } = {}): AsyncGenerator<LogLine> {
    const { body } = await this.#http.open({ path: `/jobs/${id}/logs`, query: options, headers: { accept: NDJSON } })
    yield* linesOf(body!)
  }

  async listQueues(): Promise<Queue[]> {
    return (await this.#http.json<{ items: Queue[] }>({ path: "/queues" })).items
  }

  setQueue(name: string, settings: QueueSettings): Promise<Queue> {
    return this.#http.json({ method: "PUT", path: `/queues/${segment(name)}`, body: settings, repeatable: true })
  }

  // -- the service ---------------------------------------------------------------------------------------------------------------

  async listWorkers(): Promise<Worker[]> {
    return (await this.#http.json<{ items: Worker[] }>({ path: "/workers" })).items
  }

  /** Returns who the key belongs to, and what it may do. */
  session(): Promise<Session> {
    return this.#http.json({ path: "/session" })
  }

  /** Creates a link that signs a browser in as the caller, once, and then shows a page of the web UI. */
  createSignInLink(page: string): Promise<{ path: string; expires_at: string }> {
    return this.#http.json({ method: "POST", path: "/sign-in-links", body: { page } })
  }

  async listKeys(): Promise<Key[]> {
    return (await this.#http.json<{ items: Key[] }>({ path: "/keys" })).items
  }

  createKey(body: NewKey): Promise<CreatedKey> {
    return this.#http.json({ method: "POST", path: "/keys", body })
  }

  rotateKey(id: string, overlap?: string): Promise<CreatedKey> {
    return this.#http.json({ method: "POST", path: `/keys/${id}/rotate`, body: overlap === undefined ? {} : { overlap } })
  }

  async removeKey(id: string): Promise<void> {
    await this.#http.json({ method: "DELETE", path: `/keys/${id}` })
  }

  listAudit(query: { limit?: number; after?: number } = {}): Promise<Page<AuditEntry>> {
    return this.#http.json({ path: "/audit", query })
  }

  health(nonce?: string): Promise<{ status: string; version: string; proofs?: string[] }> {
    return this.#http.json({ path: "/health", query: { nonce } })
  }

  stats(): Promise<Stats> {
    return this.#http.json({ path: "/stats" })
  }
}

const NDJSON = "application/x-ndjson"

async function* linesOf(body: ByteStream): AsyncGenerator<LogLine> {
  const decoder = new TextDecoder()
  let rest = ""
  for await (const bytes of body) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n")
    rest = lines.pop() ?? ""
    for (const line of lines) yield JSON.parse(line) as LogLine
  }
}

/** Yields every item of a list; requests each page when it is needed. */
export async function* everyItem<Item>(page: (cursor: string | undefined) => Promise<Page<Item>>): AsyncGenerator<Item> {
  let cursor: string | undefined
  for (;;) {
    const { items, next_cursor } = await page(cursor)
    yield* items
    if (next_cursor === null) return
    cursor = next_cursor
  }
}

export const collect = async <Item>(items: AsyncIterable<Item>, limit = Infinity): Promise<Item[]> => {
  const collected: Item[] = []
  for await (const item of items) {
    collected.push(item)
    if (collected.length >= limit) break
  }
  return collected
}
