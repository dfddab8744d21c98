// A fake of the HTTP APIs of Cloud Run and Cloud Logging. It responds as the published contracts say and rejects what violates
// them; executions are processes of this machine. Tests inject errors by `fault`.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { problemOf, queryProblem, type Route, routesOf } from "./contract.ts"
import { type Container, type ExecutionHost, type FakeJob, FakeExecution, type Overrides } from "./executions.ts"
import { FakeLogging, HttpError } from "./fake-logging.ts"

export const PROJECT = "acme"
export const REGION = "europe-west1"
const PARENT = `projects/${PROJECT}/locations/${REGION}`
export const LIST_LOGS = "LoggingServiceV2.ListLogEntries"
const ROUTES = [
  ...routesOf("google.cloud.run.v2", "Jobs", "Executions", "Tasks"),
  ...routesOf("google.logging.v2", "LoggingServiceV2"),
]
const MAX_TIMEOUT_S = 604_800
const STATUS_NAMES: { [status: number]: string } = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  409: "ABORTED",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
}

/** A fault of the next calls of a method. */
export interface Fault {
  /** `Jobs.RunJob` */
  method: string
  times: number
  /** Status of the response; 0 breaks the connection. */
  status: number
  /** True when the call has its effect before it fails. */
  late?: boolean
  retryAfter?: number
  /** True when the call succeeds, but its response has no metadata. */
  bare?: boolean
}

export class FakeCloudRun {
  readonly jobs = new Map<string, FakeJob>()
  /** Newest first. */
  readonly executions: FakeExecution[] = []
  /** Names of methods, in the order of calls. */
  readonly calls: string[] = []
  /** True when executions are accepted and never start. */
  hold = false
  readonly logs: FakeLogging
  readonly #now: () => number
  #faults: Fault[] = []
  #count = 0
  readonly #server: Server

  constructor(now: () => number) {
    this.#now = now
    this.logs = new FakeLogging(now)
    this.#server = createServer((request, response) => void this.#serve(request, response))
  }

  /** `now`: Google's clock. */
  static async start(now: () => number = Date.now): Promise<FakeCloudRun> {
    const fake = new FakeCloudRun(now)
    await new Promise<void>((resolve) => fake.#server.listen(0, "127.0.0.1", resolve))
    return fake
  }

  get address(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    for (const execution of this.executions) execution.kill("SIGKILL")
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  addJob(id: string, entrypoint: string[], container: Partial<Container> = {}): void {
    const name = `${PARENT}/jobs/${id}`
    this.jobs.set(name, { name, entrypoint, container: { image: "example.com/image", ...container } })
  }

  /** Deletes a job with its executions. */
  deleteJob(id: string): void {
    const name = `${PARENT}/jobs/${id}`
    this.jobs.delete(name)
    for (let at = this.executions.length - 1; at >= 0; at--) {
      if (this.executions[at]?.name.startsWith(`${name}/`)) this.executions.splice(at, 1)[0]?.kill("SIGKILL")
    }
  }

  /** Adds executions that Ork has not started. */
  addOthers(id: string, count: number): void {
    for (let i = 0; i < count; i++) this.#create(`${PARENT}/jobs/${id}`, {})
  }

  fault(fault: Partial<Fault> & { method: string }): void {
    this.#faults.push({ times: 1, status: 503, ...fault })
  }

  clearFaults(): void {
    this.#faults = []
  }

  count(method: string): number {
    return this.calls.filter((call) => call === method).length
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://fake")
    const matched = ROUTES.flatMap((route) => {
      const match = route.verb === request.method ? route.pattern.exec(url.pathname) : null
      return match === null ? [] : [{ route, match }]
    })[0]
    if (matched === undefined)
      return send(response, 404, { error: { code: 404, message: `no method ${request.method} ${url.pathname}` } })
    const { route, match } = matched
    this.calls.push(route.name)
    response.setHeader("date", new Date(this.#now()).toUTCString())
    const fault = this.#faults.find((one) => one.method === route.name && one.times > 0)
    if (fault !== undefined) fault.times -= 1
    try {
      const message = await this.#message(route, match, request, url)
      const failing = fault !== undefined && fault.bare !== true
      if (failing && fault.late !== true) return fail(request, response, fault)
      const body = this.#call(route.name, message, fault?.bare === true)
      const problem = problemOf(route.response, body, false)
      if (problem !== null) throw new Error(`the fake itself violates the contract: ${problem}`)
      if (failing) return fail(request, response, fault)
      send(response, 200, body)
    } catch (error) {
      const status = error instanceof HttpError ? error.status : 500
      send(response, status, {
        error: { code: status, message: String((error as Error).message), status: STATUS_NAMES[status] },
      })
    }
  }

  /** Returns the request as one message, from the path, the query and the body. */
  async #message(
    route: Route,
    match: RegExpExecArray,
    request: IncomingMessage,
    url: URL,
  ): Promise<{ [key: string]: unknown }> {
    const path = Object.fromEntries(route.fields.map((field, index) => [field, match[index + 1]]))
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    if (route.body === null && text !== "") throw new HttpError(400, "no body is expected")
    const body = text === "" ? {} : (JSON.parse(text) as { [key: string]: unknown })
    const message = { ...path, ...body }
    const query = queryProblem(route.request, url.searchParams)
    const problem = query ?? (route.body === null ? null : problemOf(route.request, message, true))
    if (problem !== null) throw new HttpError(400, problem)
    return { ...Object.fromEntries(url.searchParams), ...message }
  }

  #call(method: string, message: { [key: string]: unknown }, bare: boolean): object {
    switch (method) {
      case "Jobs.RunJob":
        return this.#run(String(message["name"]), message["overrides"] ?? {}, bare)
      case "Executions.GetExecution":
        return this.#execution(message["name"]).toJSON()
      case "Executions.ListExecutions":
        return this.#list(message)
      case "Executions.CancelExecution":
        return this.#cancel(this.#execution(message["name"]))
      case "Tasks.ListTasks":
        return { tasks: [this.#execution(message["parent"]).task()] }
      case LIST_LOGS:
        return this.logs.list(message)
      default:
        throw new HttpError(501, `${method} is not implemented by the fake`)
    }
  }

  #run(name: string, overrides: Overrides, bare: boolean): object {
    const execution = this.#create(name, overrides)
    const shown = execution.toJSON()
    if (!this.hold) setImmediate(() => execution.start())
    return operation(shown, bare)
  }

  #create(name: string, overrides: Overrides): FakeExecution {
    const job = this.jobs.get(name)
    const id = name.split("/").at(-1)
    if (job === undefined) throw new HttpError(404, `Resource '${id}' of kind 'JOB' in region '${REGION}' does not exist.`)
    const other = overrides.containerOverrides?.find((one) => one.name !== undefined && one.name !== (job.container.name ?? ""))
    if (other !== undefined) throw new HttpError(400, `Container name ${other.name} in overrides does not exist.`)
    if (Number.parseFloat(overrides.timeout ?? "0") > MAX_TIMEOUT_S)
      throw new HttpError(400, "task.timeout: must not be longer than 168 hours")
    this.#count += 1
    const host: ExecutionHost = {
      now: this.#now,
      onLine: (of, stream, line) => this.logs.write(of, stream, line),
    }
    const execution = new FakeExecution(
      `${name}/executions/${id}-${String(this.#count).padStart(5, "0")}`,
      job,
      overrides,
      host,
    )
    this.executions.unshift(execution)
    return execution
  }

  #list({ parent, pageSize, pageToken }: { [key: string]: unknown }): object {
    const all = this.executions.filter(({ name }) => name.startsWith(`${String(parent)}/`))
    const from = Number(pageToken ?? 0)
    const to = from + Math.min(100, Number(pageSize ?? 100))
    const executions = all.slice(from, to).map((one) => one.toJSON())
    return { executions, ...(to < all.length && { nextPageToken: String(to) }) }
  }

  #cancel(execution: FakeExecution): object {
    if (execution.over) throw new HttpError(400, "Execution is already complete and cannot be cancelled.")
    execution.cancel()
    return operation(execution.toJSON(), false)
  }

  #execution(name: unknown): FakeExecution {
    const found = this.executions.find((one) => one.name === name)
    if (found === undefined) throw new HttpError(404, `Resource '${String(name)}' of kind 'EXECUTION' does not exist.`)
    return found
  }
}

/** Returns a long-running operation that is not done yet. */
const operation = (execution: object, bare: boolean): object => ({
  name: `${PARENT}/operations/${crypto.randomUUID()}`,
  done: false,
  ...(!bare && { metadata: { "@type": "type.googleapis.com/google.cloud.run.v2.Execution", ...execution } }),
})

const fail = (request: IncomingMessage, response: ServerResponse, { status, retryAfter }: Fault): void => {
  if (status === 0) return void request.socket.destroy()
  if (retryAfter !== undefined) response.setHeader("retry-after", String(retryAfter))
  send(response, status, { error: { code: status, message: "injected by the test", status: STATUS_NAMES[status] } })
}

const send = (response: ServerResponse, status: number, body: object): void => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(body))
}
