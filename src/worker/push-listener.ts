// A worker that is pushed to: servers send `POST /execute`, are answered 202, and get the result by a callback. Requests are signed with
// the server's key; the callback carries the token that came with the task. `POST /stop` ends a task early.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { pushedAssignment } from "./push-assignment.ts"
import type { AttemptResult } from "../core/change.ts"
import type { Json } from "../core/json.ts"
import type { Clock, Random } from "../core/ports.ts"
import { uuidv7 } from "../core/ids.ts"
import type { Logger } from "../engine/ports.ts"
import { messageOf, Runner, Stop } from "../engine/runner.ts"
import type { Executor } from "../executors/executor.ts"
import { TaskLog } from "../objects/logs.ts"
import type { ObjectStore } from "../objects/objects.ts"
import { executeBody } from "../protocol/api/workers.ts"
import { SIGNATURE_HEADER, signatureProblem, TIMESTAMP_HEADER } from "../protocol/signature.ts"
import type { z } from "zod"

export interface PushListenerOptions {
  apiKey: string
  host: string
  /** 0: a free one. */
  port: number
  capacity: number
  executors: ReadonlyMap<string, Executor>
  objects: ObjectStore
  dataDir: string
  graceMs: number
  clock: Clock
  random: Random
  log: Logger
}

type Pushed = z.output<typeof executeBody>

const MAX_BODY = 64 << 20
/** Of the log that goes with a result, from its end. */
const LOG_BYTES = 128 * 1024
/** Of an output: results are requests of at most 1 MiB. */
const OUTPUT_CHARS = 512 * 1024
/** A server that does not take a result for so long has given the task up. */
const CALLBACK_MS = 600_000
const CALLBACK_TIMEOUT_MS = 10_000
const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 10_000

export class PushListener {
  readonly #options: PushListenerOptions
  readonly #server: Server
  readonly #runner: Runner
  readonly #live = new Map<string, Stop>()
  readonly #work = new Set<Promise<void>>()
  readonly #stopped = new AbortController()

  constructor(options: PushListenerOptions) {
    this.#options = options
    const { executors, clock, objects } = options
    const readOutput = async (key: string): Promise<Json> =>
      JSON.parse(Buffer.from((await objects.get(key)) ?? "null").toString()) as Json
    this.#runner = new Runner({ executors, clock, readOutput })
    this.#server = createServer((request, response) => {
      this.#answer(request)
        .catch((error: unknown): [number, string] => [500, messageOf(error)])
        .then(([status, message]) => send(response, status, message))
        .catch(() => response.destroy())
    })
  }

  /** Gives its address. */
  async start(): Promise<string> {
    for (const executor of this.#options.executors.values()) await executor.start?.()
    const { host, port } = this.#options
    await new Promise<void>((resolve, reject) => this.#server.once("error", reject).listen(port, host, resolve))
    const { port: taken } = this.#server.address() as AddressInfo
    return `http://${host.includes(":") ? `[${host}]` : host}:${taken}`
  }

  /** What runs gets its grace; results are told before it ends. */
  async stop(): Promise<void> {
    this.#server.close()
    this.#server.closeIdleConnections()
    const cancel = this.#options.clock.after(this.#options.graceMs, () => {
      for (const stop of this.#live.values()) stop.stop("shutdown")
      this.#stopped.abort()
    })
    await Promise.all(this.#work)
    cancel()
    for (const executor of this.#options.executors.values()) await executor.stop?.()
  }

  async #answer(request: IncomingMessage): Promise<[number, string]> {
    const path = request.url ?? ""
    if (request.method === "GET" && path === "/health") return [200, "ok"]
    if (request.method !== "POST" || (path !== "/execute" && path !== "/stop")) return [404, "POST /execute or POST /stop"]
    const body = await collect(request)
    if (body === null) return [413, `the body is larger than ${MAX_BODY} bytes`]
    const header = (name: string): string | undefined => {
      const value = request.headers[name]
      return typeof value === "string" ? value : undefined
    }
    const signed = { timestamp: header(TIMESTAMP_HEADER), signature: header(SIGNATURE_HEADER), body }
    const problem = signatureProblem(this.#options.apiKey, signed, this.#options.clock.now())
    if (problem !== null) return [401, problem]
    if (path === "/stop") {
      this.#live.get((JSON.parse(body) as { token?: string }).token ?? "")?.stop("cancel")
      return [202, "stopping"]
    }
    const parsed = executeBody.safeParse(JSON.parse(body))
    if (!parsed.success)
      return [400, parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("; ")]
    if (this.#live.has(parsed.data.token)) return [202, "runs already"]
    if (this.#live.size >= this.#options.capacity || !this.#server.listening) return [503, "every slot is taken"]
    const working = this.#run(parsed.data).finally(() => this.#work.delete(working))
    this.#work.add(working)
    return [202, "taken"]
  }

  async #run(pushed: Pushed): Promise<void> {
    const { clock, random, dataDir, graceMs, objects, log } = this.#options
    const stop = new Stop()
    this.#live.set(pushed.token, stop)
    const attemptId = uuidv7(clock.now(), random.hex128())
    const workingDir = join(dataDir, "pushed", attemptId)
    const prefix = `pushed/${attemptId}/`
    try {
      await mkdir(workingDir, { recursive: true })
      const assignment = pushedAssignment(pushed, { attemptId, workingDir, prefix, graceMs })
      const result = await this.#runner.run(assignment, stop, { started: () => {}, progress: () => {} })
      await this.#tell(pushed, await this.#resultOf(result, prefix))
    } catch (error) {
      log.warn({ task: pushed.task_id, error: messageOf(error) }, "could not tell the result of a task")
    } finally {
      this.#live.delete(pushed.token)
      await rm(workingDir, { recursive: true, force: true }).catch(() => {})
      await objects.deletePrefix(prefix).catch(() => {})
    }
  }

  async #resultOf(result: AttemptResult, prefix: string): Promise<Record<string, unknown>> {
    const log = new TaskLog(this.#options.objects, prefix)
    const size = await log.size()
    const { bytes } = await log.read(Math.max(0, size - LOG_BYTES), LOG_BYTES)
    const told = {
      exit_code: result.exitCode ?? null,
      ...(size > 0 && { log: Buffer.from(bytes).toString("utf8") }),
    }
    if (result.state !== "success") return { ...told, status: "failed", error: result.error ?? result.state }
    const { output } = result
    const value =
      output === undefined || "inline" in output
        ? (output?.inline ?? null)
        : (JSON.parse(Buffer.from((await this.#options.objects.get(output.key))!).toString()) as Json)
    if (JSON.stringify(value).length > OUTPUT_CHARS) {
      return { ...told, status: "failed", error: "its output is too large for a worker that is pushed to: write it to a store" }
    }
    return { ...told, status: "success", output: value }
  }

  /** Until the server took it, or said that it does not want it. */
  async #tell({ callback_url, token, task_instance_id }: Pushed, result: Record<string, unknown>): Promise<void> {
    const { clock } = this.#options
    const headers = { "content-type": "application/json", authorization: `Bearer ${token}` }
    const body = JSON.stringify({ task_instance_id, ...result })
    const until = clock.now() + CALLBACK_MS
    for (let failures = 0; clock.now() < until && !this.#stopped.signal.aborted; failures++) {
      const signal = AbortSignal.timeout(CALLBACK_TIMEOUT_MS)
      const answer = await fetch(callback_url, { method: "POST", headers, body, signal, redirect: "manual" }).catch(() => null)
      await answer?.body?.cancel()
      if (answer !== null && answer.status < 500 && answer.status !== 429) {
        if (!answer.ok) this.#options.log.warn({ status: answer.status }, "the server refused the result of a task")
        return
      }
      const wait = Math.min(FIRST_WAIT_MS * 2 ** failures, MAX_WAIT_MS)
      await new Promise<void>((resolve) => clock.after(wait, resolve))
    }
  }
}

/** null: too large. */
const collect = async (request: IncomingMessage): Promise<string | null> => {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > MAX_BODY) return null
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString("utf8")
}

const send = (response: ServerResponse, status: number, message: string): void => {
  response.writeHead(status, { "content-type": "application/json" })
  response.end(JSON.stringify(status < 400 ? { status: message } : { error: { message } }))
}
