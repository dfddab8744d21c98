// A server of the built command to attack, with a client, a monitor of its responsiveness and a view of its memory.

import { type ChildProcess, spawn } from "node:child_process"
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Worker } from "node:worker_threads"
import type { Monitored, Seen } from "./health-monitor.ts"
import { AS_NOBODY, NOBODY } from "../support/program-for-nobody.ts"

const READY = /is ready at (http:\S+)/

/** Values that no attack may see. */
export const PLANTED = { HOOK: "planted-hook-secret-5b1c", OTHER: "planted-other-secret-93fa", API: "planted-environment-77d0" }

/** Servers that run, which end with this process however it ends. */
const running = new Set<Target>()
process.once("exit", () => {
  for (const target of running) target.abandon()
})
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(130))

export interface Reply {
  status: number
  text: string
  body: Record<string, unknown>
  headers: Headers
}

export interface TargetOptions {
  /** The built command. */
  program: string
  /** `sqlite`, or the URL of a Postgres database. */
  database: string
  /** Run as the user nobody. Requires root. */
  asNobody: boolean
  /** Further variables and flags of the server. */
  env?: Record<string, string>
  flags?: string[]
}

export class Target {
  readonly folder: string
  /** A folder that every user may write to: a file that appears there shows that an attack ran code. */
  readonly canaries: string
  readonly url: string
  readonly key: string
  readonly child: ChildProcess
  readonly options: TargetOptions
  /** A server that nothing happens on. Its response times are those of the machine. */
  idle: Target | null = null
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 8 })

  private constructor(parts: { folder: string; url: string; child: ChildProcess; options: TargetOptions }) {
    this.folder = parts.folder
    this.canaries = join(parts.folder, "canaries")
    this.url = parts.url
    this.key = readFileSync(join(parts.folder, ".ork/admin.key"), "utf8").trim()
    this.child = parts.child
    this.options = parts.options
  }

  static async start(options: TargetOptions): Promise<Target> {
    const { program, database, asNobody, env = {}, flags = [] } = options
    const folder = mkdtempSync(join(tmpdir(), "ork-attack-"))
    mkdirSync(join(folder, "canaries"))
    chmodSync(folder, 0o755)
    chmodSync(join(folder, "canaries"), 0o777)
    if (asNobody) chownSync(folder, NOBODY, NOBODY)
    const variables = {
      PATH: process.env.PATH!,
      HOME: folder,
      ORK_LOG: "warn",
      ORK_SECRET_HOOK: PLANTED.HOOK,
      ORK_SECRET_OTHER: PLANTED.OTHER,
      AWS_SECRET_ACCESS_KEY: PLANTED.API,
      ORK_HTTP_ALLOW: "127.0.0.1",
      ...(database !== "sqlite" && { ORK_DATABASE_URL: database }),
      ...env,
    }
    const child = spawnAs(asNobody, [program, "serve", "--port", "0", ...flags], { cwd: folder, env: variables })
    let printed = ""
    await new Promise<void>((resolve, reject) => {
      child.stdout!.on("data", (data: Buffer) => {
        printed += data.toString()
        if (READY.test(printed)) resolve()
      })
      child.stderr!.on("data", (data: Buffer) => (printed += data.toString()))
      child.once("close", (code) => reject(new Error(`the server ended with ${code}: ${printed}`)))
    })
    const target = new Target({ folder, url: READY.exec(printed)![1]!, child, options })
    running.add(target)
    return target
  }

  /**
   * Starts another server with other variables and flags, by the same user: on the same Postgres database, or on a SQLite file of its
   * own.
   */
  another(changes: Pick<TargetOptions, "env" | "flags"> = {}): Promise<Target> {
    return Target.start({ ...this.options, ...changes })
  }

  async stop(): Promise<void> {
    this.#agent.destroy()
    await this.idle?.stop()
    const ended = this.alive ? new Promise((resolve) => this.child.once("close", resolve)) : null
    this.abandon()
    await ended
    running.delete(this)
  }

  /** Kills the server and removes its folder, without waiting. */
  abandon(): void {
    if (this.alive) process.kill(-this.child.pid!, "SIGKILL")
    rmSync(this.folder, { recursive: true, force: true })
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  /** Runs the command as the user of the server, in a folder of its own unless `cwd` is given. */
  ork(args: string[], { cwd = this.folder, env = {} }: { cwd?: string; env?: Record<string, string> } = {}) {
    return new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) => {
      const child = spawnAs(this.options.asNobody, [this.options.program, ...args], {
        cwd,
        env: { PATH: process.env.PATH!, HOME: this.folder, ...env },
      })
      const out = { stdout: "", stderr: "" }
      child.stdout!.on("data", (data: Buffer) => (out.stdout += data.toString()))
      child.stderr!.on("data", (data: Buffer) => (out.stderr += data.toString()))
      const timer = setTimeout(() => child.kill("SIGKILL"), 30_000)
      child.once("close", (code) => {
        clearTimeout(timer)
        resolve({ code, ...out })
      })
    })
  }

  async call(
    method: string,
    path: string,
    { key = this.key, body, headers = {} }: { key?: string | null; body?: unknown; headers?: Record<string, string> } = {},
  ): Promise<Reply> {
    const response = await fetch(this.url + path, {
      method,
      redirect: "manual",
      headers: {
        ...(key !== null && { "x-api-key": key }),
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(60_000),
    })
    const text = await response.text()
    return { status: response.status, text, body: parsed(text), headers: response.headers }
  }

  /** Sends a request with the path as it is: `fetch` would resolve its dots and escapes. */
  exactly(
    method: string,
    path: string,
    { key, body }: { key: string | null; body?: unknown },
  ): Promise<Pick<Reply, "status" | "text">> {
    const headers = {
      ...(key !== null && { "x-api-key": key }),
      ...(body !== undefined && { "content-type": "application/json" }),
    }
    const { hostname, port } = new URL(this.url)
    return new Promise((resolve, reject) => {
      const sent = request({ hostname, port, method, path, headers, agent: this.#agent, timeout: 60_000 }, (response) => {
        let text = ""
        response.setEncoding("utf8")
        response.on("data", (part: string) => {
          text += part
          // An open stream has no end.
          if (response.headers["content-type"]?.startsWith("text/event-stream")) sent.destroy()
        })
        response.on("close", () => resolve({ status: response.statusCode!, text }))
      })
      sent.on("timeout", () => sent.destroy(new Error(`${method} ${path} got no response`)))
      sent.on("error", reject)
      sent.end(body === undefined ? undefined : JSON.stringify(body))
    })
  }

  /** Deploys a workflow; returns the error of a rejected one. */
  async deploy(definition: object): Promise<string | null> {
    const { status, text } = await this.call("POST", "/workflows", { body: definition })
    return status < 300 ? null : text
  }

  /** Triggers a workflow and waits for its end; returns the id of the run, or the error of a rejected trigger. */
  async run(workflow: string, params: object = {}): Promise<{ id: string; status: string } | { rejected: string }> {
    const created = await this.call("POST", `/workflows/${workflow}/runs`, { body: { params } })
    if (created.status !== 201) return { rejected: created.text }
    const id = String(created.body["id"])
    for (const until = Date.now() + 60_000; Date.now() < until; await pause(30)) {
      const { body } = await this.call("GET", `/runs/${id}`)
      if (["success", "failed", "cancelled"].includes(String(body["status"]))) return { id, status: String(body["status"]) }
    }
    return { id, status: "running" }
  }

  /** Returns everything that the API shows of a task: its view, its output and its log. */
  async everythingOf(run: string, task: string): Promise<string> {
    const paths = ["", "/output", "/logs"].map((end) => `/runs/${run}/tasks/${task}${end}`)
    const replies = await Promise.all(paths.map((path) => this.call("GET", path)))
    return replies.map(({ text }) => text).join("\n")
  }

  async newKey(body: object): Promise<{ id: string; key: string }> {
    const reply = await this.call("POST", "/keys", { body: { name: "attack", ...body } })
    if (reply.status !== 201) throw new Error(`could not create a key: ${reply.text}`)
    return reply.body as { id: string; key: string }
  }

  /** The process that serves requests: the largest one below the command. */
  get pid(): number {
    const parents = new Map<number, number>()
    for (const name of readdirSync("/proc")) {
      if (!/^\d+$/.test(name)) continue
      const parent = statusOf(Number(name)).parent
      if (parent !== null) parents.set(Number(name), parent)
    }
    const isBelow = (pid: number): boolean => {
      for (let at: number | undefined = pid; at !== undefined && at > 1; at = parents.get(at))
        if (at === this.child.pid) return true
      return false
    }
    return [...parents.keys()].filter(isBelow).toSorted((a, b) => statusOf(b).kb - statusOf(a).kb)[0]!
  }

  /**
   * Runs `attack`. Returns by how much the longest response time of /health exceeded that of the idle server meanwhile, in ms of a machine
   * that does nothing else, and the growth of the server's memory, in MB.
   */
  async watch(attack: () => Promise<unknown>): Promise<{ delayMs: number; grownMb: number }> {
    const { pid, idle } = this
    if (idle === null) throw new Error("there is no idle server to compare with")
    const before = statusOf(pid).kb
    const monitored: Monitored = { target: `${this.url}/health`, idle: `${idle.url}/health`, pid }
    const health = await startThread<Seen>("health-monitor.ts", monitored)
    const load = await startThread<number>("load-monitor.ts")
    await attack()
    // The last request may still be in progress on the server.
    if (this.alive) await this.call("GET", "/health", { key: null }).catch(() => {})
    const [{ targetMs, idleMs, peakKb }, slowdown] = await Promise.all([health.stop(), load.stop()])
    return { delayMs: Math.max(0, targetMs - idleMs) / slowdown, grownMb: Math.max(0, peakKb - before) / 1024 }
  }
}

/** Starts a thread of this folder. `stop` resolves with what it reports at its end. */
const startThread = async <Result>(file: string, workerData?: unknown): Promise<{ stop(): Promise<Result> }> => {
  const thread = new Worker(join(import.meta.dirname, file), { workerData })
  const next = <T>(): Promise<T> => new Promise((resolve) => thread.once("message", resolve))
  await next()
  return {
    stop: async () => {
      thread.postMessage("stop")
      const result = await next<Result>()
      await thread.terminate()
      return result
    },
  }
}

/** Starts a program, by the user nobody if so, in a process group of its own. */
const spawnAs = (asNobody: boolean, argv: string[], options: { cwd: string; env: Record<string, string> }): ChildProcess => {
  const command = asNobody ? [...AS_NOBODY, ...argv] : argv
  return spawn(command[0]!, command.slice(1), { ...options, stdio: ["ignore", "pipe", "pipe"], detached: true })
}

const statusOf = (pid: number): { parent: number | null; kb: number } => {
  try {
    const text = readFileSync(`/proc/${pid}/status`, "utf8")
    const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? 0)
    return { parent: field("PPid"), kb: field("VmRSS") }
  } catch {
    return { parent: null, kb: 0 }
  }
}

const parsed = (text: string): Record<string, unknown> => {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** An HTTP server that records its requests. */
export const startReceiver = async (
  respond: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) => response.end("{}"),
  port = 0,
): Promise<{ url: string; port: number; requests: { url: string; headers: string; body: string }[]; close(): void }> => {
  const requests: { url: string; headers: string; body: string }[] = []
  const server = createServer((request, response) => {
    const seen = { url: request.url ?? "", headers: JSON.stringify(request.headers), body: "" }
    requests.push(seen)
    request.on("data", (data: Buffer) => (seen.body += data.toString()))
    request.on("end", () => respond(request, response))
  })
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve))
  const at = (server.address() as AddressInfo).port
  const close = (): void => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${at}`, port: at, requests, close }
}
