// A worker that servers push tasks to. `POST /execute` starts a task, responds 202, and reports the result by a callback with the token
// of the task. `POST /stop` stops a task; `POST /alive` asks which tasks are running. No token runs twice. A task whose server does
// not ask about it within its lease is stopped, because the server retries it elsewhere.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { mkdir, readdir, rm } from "node:fs/promises"
import { join } from "node:path"
import type { z } from "zod"
import { messageOf } from "../../core/values/error-message.ts"
import { PushAuth, type PushAuthOptions } from "./push-auth.ts"
import { deliverResult, resultMessage } from "./push-result.ts"
import { SeenTokens } from "./seen-tokens.ts"
import type { Json } from "../../core/values/json.ts"
import type { Random } from "../../core/model/ports.ts"
import { uuidv7 } from "../../core/model/ids.ts"
import type { Logger } from "../../engine/ports.ts"
import { AttemptRunner, StopSignal } from "../../engine/attempts/attempt-runner.ts"
import type { Assignment, Executor } from "../../executors/executor.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { aliveBody, executeBody, stopBody } from "../../protocol/api/workers.ts"
import { bareNode } from "../../core/model/bare-node.ts"

export interface PushListenerOptions extends PushAuthOptions {
  host: string
  /** 0 for a free port. */
  port: number
  capacity: number
  executors: ReadonlyMap<string, Executor>
  objects: ObjectStore
  dataDir: string
  graceMs: number
  random: Random
  log: Logger
  /** Identifies this process to other processes of the machine. */
  identity: string
  alive(identity: string): boolean
}

type Pushed = z.output<typeof executeBody>

type Reply = [status: number, body: object]

/** Time limit for receiving a request. */
const REQUEST_MS = 60_000
const MAX_CONNECTIONS = 2000
/** Time for the last results when the worker stops, after its tasks have ended. */
const SHUTDOWN_MS = 10_000

const errorReply = (status: number, message: string): Reply => [status, { error: { message } }]

/** A pushed task, until its result is delivered. */
class RunningTask extends StopSignal {
  readonly #leaseMs: number
  readonly #options: Pick<PushListenerOptions, "clock" | "log">
  readonly #name: string
  #cancelLease = (): void => {}

  constructor({ lease_ms, task_id }: Pushed, options: Pick<PushListenerOptions, "clock" | "log">) {
    super()
    this.#leaseMs = lease_ms
    this.#name = task_id
    this.#options = options
    this.renewLease()
  }

  renewLease(): void {
    this.#cancelLease()
    this.#cancelLease = this.#options.clock.after(this.#leaseMs, () => {
      this.#options.log.warn({ task: this.#name }, "the server of this task does not ask about it any more; stopping it")
      this.stop("lost")
    })
  }

  end(): void {
    this.#cancelLease()
  }
}

export class PushListener {
  readonly #options: PushListenerOptions
  readonly #server: Server
  readonly #runner: AttemptRunner
  readonly #auth: PushAuth
  readonly #seen: SeenTokens
  readonly #tasks = new Map<string, RunningTask>()
  readonly #runs = new Set<Promise<void>>()
  readonly #stopped = new AbortController()
  #draining = false

  constructor(options: PushListenerOptions) {
    this.#options = options
    const { executors, clock } = options
    this.#runner = new AttemptRunner({ executors, clock })
    this.#auth = new PushAuth(options)
    this.#seen = new SeenTokens(clock.now())
    this.#server = createServer({ requestTimeout: REQUEST_MS }, (request, response) => {
      this.#handle(request)
        .catch((error: unknown): Reply => errorReply(500, messageOf(error)))
        .then((reply) => send(response, reply))
        .catch(() => response.destroy())
    })
    this.#server.maxConnections = MAX_CONNECTIONS
  }

  /** Returns the address. Rejects when the port cannot be used. */
  async start(): Promise<string> {
    const { host, port, executors } = this.#options
    for (const executor of executors.values()) await executor.start?.()
    await this.#sweep()
    try {
      await new Promise<void>((resolve, reject) => this.#server.once("error", reject).listen(port, host, resolve))
    } catch (error) {
      for (const executor of executors.values()) await executor.stop?.()
      throw error
    }
    const { port: actualPort } = this.#server.address() as AddressInfo
    return `http://${host.includes(":") ? `[${host}]` : host}:${actualPort}`
  }

  /** Lets running tasks finish within the grace period, and delivers their results. Requests are still answered meanwhile. */
  async stop(): Promise<void> {
    const { clock, graceMs, executors, log } = this.#options
    this.#draining = true
    const cancelGrace = clock.after(graceMs, () => {
      for (const task of this.#tasks.values()) task.stop("shutdown")
    })
    // A stopped task has the grace period once more before it is killed.
    const cancelTimeout = clock.after(2 * graceMs + SHUTDOWN_MS, () => {
      log.warn({ tasks: this.#tasks.size }, "tasks did not end in time; servers will find them lost")
      this.#stopped.abort()
    })
    const timedOut = new Promise<void>((resolve) => this.#stopped.signal.addEventListener("abort", () => resolve()))
    await Promise.race([Promise.all(this.#runs), timedOut])
    cancelGrace()
    cancelTimeout()
    this.#server.close()
    this.#server.closeAllConnections()
    for (const executor of executors.values()) await executor.stop?.()
  }

  /** Removes files of tasks of killed processes. */
  async #sweep(): Promise<void> {
    const { dataDir, objects, alive } = this.#options
    for (const owner of await readdir(join(dataDir, "pushed")).catch(() => [])) {
      if (alive(owner)) continue
      await objects.deletePrefix(`pushed/${owner}/`)
      await rm(join(dataDir, "pushed", owner), { recursive: true, force: true })
    }
  }

  async #handle(request: IncomingMessage): Promise<Reply> {
    const { method, url } = request
    if (method === "GET" && url === "/health") return [200, { status: "ok" }]
    if (method !== "POST" || (url !== "/execute" && url !== "/stop" && url !== "/alive")) {
      return errorReply(404, "POST /execute, POST /stop or POST /alive")
    }
    const authenticated = await this.#auth.authenticate(request)
    if ("problem" in authenticated) return errorReply(authenticated.status, authenticated.problem)
    const body = JSON.parse(authenticated.body) as unknown
    switch (url) {
      case "/execute":
        return withBody(executeBody.safeParse(body), (pushed) => this.#execute(pushed, authenticated.at))
      case "/stop":
        return withBody(stopBody.safeParse(body), ({ token }) => this.#stop(token, authenticated.at))
      case "/alive":
        return withBody(aliveBody.safeParse(body), ({ tokens }) => this.#alive(tokens))
      default:
        return url satisfies never
    }
  }

  #execute(pushed: Pushed, at: number): Reply {
    const { clock, capacity } = this.#options
    if (this.#seen.has(pushed.token)) return [202, { status: "taken" }]
    if (this.#seen.tooOld(at)) return errorReply(401, "this was signed too long ago; sign it again")
    if (this.#draining) return errorReply(503, "this worker is stopping")
    if (this.#tasks.size >= capacity) return errorReply(503, "every slot is in use")
    this.#seen.add(pushed.token, at, clock.now())
    const run = this.#run(pushed).finally(() => this.#runs.delete(run))
    this.#runs.add(run)
    return [202, { status: "taken" }]
  }

  /** Stops a task. Also remembers the token of one that has not arrived yet, so that it will not run. */
  #stop(token: string, at: number): Reply {
    if (!this.#seen.has(token)) this.#seen.add(token, at, this.#options.clock.now())
    this.#tasks.get(token)?.stop("cancel")
    return [202, { status: "stopping" }]
  }

  #alive(tokens: readonly string[]): Reply {
    for (const token of tokens) this.#tasks.get(token)?.renewLease()
    return [200, { unknown: tokens.filter((token) => !this.#tasks.has(token)) }]
  }

  async #run(pushed: Pushed): Promise<void> {
    const { clock, random, dataDir, graceMs, objects, log, identity } = this.#options
    const task = new RunningTask(pushed, this.#options)
    this.#tasks.set(pushed.token, task)
    const attemptId = uuidv7(clock.now(), random.hex128())
    const prefix = `pushed/${identity}/${attemptId}/`
    const workingDir = join(dataDir, prefix)
    try {
      await mkdir(workingDir, { recursive: true })
      const assignment = pushedAssignment(pushed, { attemptId, workingDir, prefix, graceMs })
      const result = await this.#runner.run(assignment, task, { started: () => {}, progress: () => {} })
      const message = await resultMessage(objects, prefix, result)
      await deliverResult(pushed, message, { clock, log, signal: this.#stopped.signal })
    } catch (error) {
      log.warn({ task: pushed.task_id, error: messageOf(error) }, "failed to report the result of a task")
    } finally {
      task.end()
      this.#tasks.delete(pushed.token)
      await rm(workingDir, { recursive: true, force: true }).catch(() => {})
      await objects.deletePrefix(prefix).catch(() => {})
    }
  }
}

const withBody = <T>(parsed: z.ZodSafeParseResult<T>, use: (body: T) => Reply): Reply =>
  parsed.success
    ? use(parsed.data)
    : errorReply(400, parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "))

/** Closes the connection of a rejected request, because its body may be unread. */
const send = (response: ServerResponse, [status, body]: Reply): void => {
  response.writeHead(status, { "content-type": "application/json", ...(status >= 400 && { connection: "close" }) })
  response.end(JSON.stringify(body))
}

const MAX_OUTPUT_BYTES = 1 << 20

const pushedAssignment = (
  pushed: z.output<typeof executeBody>,
  local: Pick<Assignment, "attemptId" | "workingDir" | "prefix" | "graceMs">,
): Assignment => ({
  ...local,
  baseDir: local.workingDir,
  runId: pushed.run_id,
  taskId: pushed.task_instance_id,
  attempt: pushed.attempt,
  workflow: pushed.workflow,
  task: pushed.task_id,
  path: pushed.path,
  parallelIndex: pushed.parallel_index,
  parallelCount: pushed.parallel_count,
  logicalDate: pushed.logical_date,
  node: bareNode({
    name: pushed.task_id,
    executor: "process",
    timeoutMs: pushed.timeout_ms,
    ...(pushed.output_format !== undefined && { outputFormat: pushed.output_format }),
  }),
  input: (pushed.input ?? null) as Json,
  fields: {},
  command: typeof pushed.command === "string" ? { shell: pushed.command } : { argv: pushed.command },
  env: pushed.env,
  upstreamDir: null,
  maxOutputBytes: MAX_OUTPUT_BYTES,
  secrets: [],
})
