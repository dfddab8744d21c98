// A worker that is pushed to: servers send `POST /execute`, are answered 202, and get the result by a callback, which carries the token that
// came with the task. `POST /stop` ends a task early; `POST /alive` asks which tasks are still here. Nothing runs twice under one token,
// and a task that its server does not ask about for its lease is ended: the server tries it again elsewhere.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { mkdir, readdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { messageOf } from "../../core/model/error-message.ts"
import { pushedAssignment } from "./push-assignment.ts"
import { PushAuth, type PushAuthOptions } from "./push-auth.ts"
import { resultMessage, deliverResult } from "./push-result.ts"
import { SeenTokens } from "./seen-tokens.ts"
import type { Json } from "../../core/model/json.ts"
import type { Random } from "../../core/model/ports.ts"
import { uuidv7 } from "../../core/model/ids.ts"
import type { Logger } from "../../engine/ports.ts"
import { AttemptRunner, StopSignal } from "../../engine/attempts/attempt-runner.ts"
import type { Executor } from "../../executors/executor.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { aliveBody, executeBody, stopBody } from "../../protocol/api/workers.ts"
import type { z } from "zod"

export interface PushListenerOptions extends PushAuthOptions {
  host: string
  /** 0: a free one. */
  port: number
  capacity: number
  executors: ReadonlyMap<string, Executor>
  objects: ObjectStore
  dataDir: string
  graceMs: number
  random: Random
  log: Logger
  /** How this process is known to others, and whether the one so described still lives. */
  identity: string
  alive(identity: string): boolean
}

type Pushed = z.output<typeof executeBody>

type Answer = [status: number, body: object]

/** A request that takes longer to arrive is given up. */
const REQUEST_MS = 60_000
const MAX_CONNECTIONS = 2000
/** For the last results when it stops, beyond what tasks get to end. */
const FAREWELL_MS = 10_000

const refuse = (status: number, message: string): Answer => [status, { error: { message } }]

/** A task that runs here, until the server was told of its end. */
class Live extends StopSignal {
  readonly #leaseMs: number
  readonly #options: Pick<PushListenerOptions, "clock" | "log">
  readonly #name: string
  #cancel = (): void => {}

  constructor({ lease_ms, task_id }: Pushed, options: Pick<PushListenerOptions, "clock" | "log">) {
    super()
    this.#leaseMs = lease_ms
    this.#name = task_id
    this.#options = options
    this.asked()
  }

  /** Its server lives, and wants it. */
  asked(): void {
    this.#cancel()
    this.#cancel = this.#options.clock.after(this.#leaseMs, () => {
      this.#options.log.warn({ task: this.#name }, "its server does not ask about this task any more; ending it")
      this.stop("lost")
    })
  }

  end(): void {
    this.#cancel()
  }
}

export class PushListener {
  readonly #options: PushListenerOptions
  readonly #server: Server
  readonly #runner: AttemptRunner
  readonly #door: PushAuth
  readonly #seen: SeenTokens
  readonly #live = new Map<string, Live>()
  readonly #work = new Set<Promise<void>>()
  readonly #stopped = new AbortController()
  #draining = false

  constructor(options: PushListenerOptions) {
    this.#options = options
    const { executors, clock, objects } = options
    const readOutput = async (key: string): Promise<Json> =>
      JSON.parse(Buffer.from((await objects.get(key)) ?? "null").toString()) as Json
    this.#runner = new AttemptRunner({ executors, clock, readOutput })
    this.#door = new PushAuth(options)
    this.#seen = new SeenTokens(clock.now())
    this.#server = createServer({ requestTimeout: REQUEST_MS }, (request, response) => {
      this.#answer(request)
        .catch((error: unknown): Answer => refuse(500, messageOf(error)))
        .then((answer) => send(response, answer))
        .catch(() => response.destroy())
    })
    this.#server.maxConnections = MAX_CONNECTIONS
  }

  /** Gives its address. */
  async start(): Promise<string> {
    const { host, port, executors } = this.#options
    for (const executor of executors.values()) await executor.start?.()
    await this.#sweep()
    await new Promise<void>((resolve, reject) => this.#server.once("error", reject).listen(port, host, resolve))
    const { port: taken } = this.#server.address() as AddressInfo
    return `http://${host.includes(":") ? `[${host}]` : host}:${taken}`
  }

  /** What runs gets its grace and goes on being asked about; results are told before it ends. */
  async stop(): Promise<void> {
    const { clock, graceMs, executors, log } = this.#options
    this.#draining = true
    const cancelGrace = clock.after(graceMs, () => {
      for (const live of this.#live.values()) live.stop("shutdown")
    })
    // A task that is told to stop gets its grace once more before it is killed.
    const cancelFarewell = clock.after(2 * graceMs + FAREWELL_MS, () => {
      log.warn({ tasks: this.#live.size }, "could not end in time; servers find out that these tasks are lost")
      this.#stopped.abort()
    })
    const gone = new Promise<void>((resolve) => this.#stopped.signal.addEventListener("abort", () => resolve()))
    await Promise.race([Promise.all(this.#work), gone])
    cancelGrace()
    cancelFarewell()
    this.#server.close()
    this.#server.closeAllConnections()
    for (const executor of executors.values()) await executor.stop?.()
  }

  /** What the tasks of processes that were killed have left. */
  async #sweep(): Promise<void> {
    const { dataDir, objects, alive } = this.#options
    for (const owner of await readdir(join(dataDir, "pushed")).catch(() => [])) {
      if (alive(owner)) continue
      await objects.deletePrefix(`pushed/${owner}/`)
      await rm(join(dataDir, "pushed", owner), { recursive: true, force: true })
    }
  }

  async #answer(request: IncomingMessage): Promise<Answer> {
    const { method, url } = request
    if (method === "GET" && url === "/health") return [200, { status: "ok" }]
    if (method !== "POST" || (url !== "/execute" && url !== "/stop" && url !== "/alive")) {
      return refuse(404, "POST /execute, POST /stop or POST /alive")
    }
    const admitted = await this.#door.authenticate(request)
    if ("problem" in admitted) return refuse(admitted.status, admitted.problem)
    const body = JSON.parse(admitted.body) as unknown
    switch (url) {
      case "/execute":
        return checked(executeBody.safeParse(body), (pushed) => this.#execute(pushed, admitted.at))
      case "/stop":
        return checked(stopBody.safeParse(body), ({ token }) => this.#stop(token, admitted.at))
      case "/alive":
        return checked(aliveBody.safeParse(body), ({ tokens }) => this.#alive(tokens))
      default:
        return url satisfies never
    }
  }

  #execute(pushed: Pushed, at: number): Answer {
    const { clock, capacity } = this.#options
    if (this.#seen.has(pushed.token)) return [202, { status: "taken" }]
    if (this.#seen.tooOld(at)) return refuse(401, "this was signed too long ago; sign it anew")
    if (this.#draining) return refuse(503, "this worker is about to end")
    if (this.#live.size >= capacity) return refuse(503, "every slot is taken")
    this.#seen.add(pushed.token, at, clock.now())
    const working = this.#run(pushed).finally(() => this.#work.delete(working))
    this.#work.add(working)
    return [202, { status: "taken" }]
  }

  /** One that has not come yet is not taken when it comes. */
  #stop(token: string, at: number): Answer {
    if (!this.#seen.has(token)) this.#seen.add(token, at, this.#options.clock.now())
    this.#live.get(token)?.stop("cancel")
    return [202, { status: "stopping" }]
  }

  #alive(tokens: readonly string[]): Answer {
    for (const token of tokens) this.#live.get(token)?.asked()
    return [200, { unknown: tokens.filter((token) => !this.#live.has(token)) }]
  }

  async #run(pushed: Pushed): Promise<void> {
    const { clock, random, dataDir, graceMs, objects, log, identity } = this.#options
    const live = new Live(pushed, this.#options)
    this.#live.set(pushed.token, live)
    const attemptId = uuidv7(clock.now(), random.hex128())
    const prefix = `pushed/${identity}/${attemptId}/`
    const workingDir = join(dataDir, prefix)
    try {
      await mkdir(workingDir, { recursive: true })
      const assignment = pushedAssignment(pushed, { attemptId, workingDir, prefix, graceMs })
      const result = await this.#runner.run(assignment, live, { started: () => {}, progress: () => {} })
      const message = await resultMessage(objects, prefix, result)
      await deliverResult(pushed, message, { clock, log, signal: this.#stopped.signal })
    } catch (error) {
      log.warn({ task: pushed.task_id, error: messageOf(error) }, "could not tell the result of a task")
    } finally {
      live.end()
      this.#live.delete(pushed.token)
      await rm(workingDir, { recursive: true, force: true }).catch(() => {})
      await objects.deletePrefix(prefix).catch(() => {})
    }
  }
}

const checked = <T>(read: z.ZodSafeParseResult<T>, use: (body: T) => Answer): Answer =>
  read.success
    ? use(read.data)
    : refuse(400, read.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; "))

/** A refused request may have a body that nobody has read: its connection goes. */
const send = (response: ServerResponse, [status, body]: Answer): void => {
  response.writeHead(status, { "content-type": "application/json", ...(status >= 400 && { connection: "close" }) })
  response.end(JSON.stringify(body))
}
