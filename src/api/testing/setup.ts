// A server for tests: the real engine on a real store, a folder of objects, and a scripted executor.

import { explainJob } from "../../engine/services/explain.ts"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pino } from "pino"
import type { InjectOptions, LightMyRequestResponse } from "fastify"
import { vi } from "vitest"
import type { RunId } from "../../core/model/ids.ts"
import { Engine } from "../../engine/engine.ts"
import { inlineEvaluator } from "../../engine/gate/evaluator.ts"
import { createServices } from "../../engine/services/services.ts"
import { systemClock, systemRandom } from "../../engine/system.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import type { KeyScope } from "../../store/contract/keys.ts"
import type { EngineOptions } from "../../engine/ports.ts"
import { WorkerService } from "../../engine/workers/worker-service.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { ApiConfig, Explanation, ServerOptions } from "../http/ports.ts"
import { type ApiServer, buildServer, close } from "../http/server.ts"
import { ScriptedExecutor } from "./scripted.ts"
import { openTestStore, rejectChanges } from "./store.ts"

export const ADMIN_KEY = "the-admin-key-of-tests"

export interface TestServer {
  server: ApiServer
  store: ServerStore
  engine: Engine
  executor: ScriptedExecutor
  objects: FileObjectStore
  /** Contains the database (SQLite) and the objects. */
  folder: string
  /** Lines of the server's log. */
  logged: string[]
  /** Sends a request with the admin key, or without a key for `key: null`. A body that is an object is sent as JSON. */
  call(method: string, url: string, options?: CallOptions): Promise<TestResponse>
  newKey(...scopes: KeyScope[]): Promise<string>
  /** Deploys a workflow. A task that is a string stands for its command. */
  deploy(name: string, tasks: { [task: string]: unknown }, rest?: object): Promise<void>
  /** Triggers a run, waits until it has ended, and returns its id. */
  runToEnd(name: string): Promise<string>
}

export interface CallOptions {
  body?: unknown
  key?: string | null
  headers?: Record<string, string>
}

export interface TestResponse {
  status: number
  /** Parsed JSON, or the text if it is not JSON. */
  body: { [field: string]: unknown } & { error?: { code: string; message: string; details?: { path: string }[] } }
  text: string
  headers: LightMyRequestResponse["headers"]
}

/** Returns whether a body is sent as JSON; text and bytes are sent unchanged. */
const isJson = (body: unknown): boolean => body !== undefined && typeof body !== "string" && !Buffer.isBuffer(body)

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const explain = async (): Promise<Explanation[]> => [
  { task: "a", path: "", status: "pending", sentence: "a waits for its upstream" },
]

export interface SetupOptions extends Partial<Omit<ServerOptions, "config">> {
  config?: Partial<ApiConfig>
  wrap?: (store: ServerStore) => ServerStore
  /** False for a second server on the store of another one. */
  closeStore?: boolean
  lanes?: string[]
}

/** Starts a server. `await using` stops it. */
export const setup = async ({ wrap, closeStore = true, lanes = ["q:*"], config, ...options }: SetupOptions = {}) => {
  const folder = await mkdtemp(join(tmpdir(), "ork-api-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const plain = await openTestStore(folder)
  const store = wrap?.(plain) ?? plain
  const executor = new ScriptedExecutor(objects)
  const logged: string[] = []
  const log = pino({ level: "debug" }, { write: (line: string) => void logged.push(line) })
  const parts: EngineOptions = {
    ...engineSettings(store),
    store,
    objects,
    executors: new Map([["process", executor]]),
    log,
    lanes,
    dataDir: folder,
    observer: { turn: () => workers.wake(), cancelled: () => workers.wake(true) },
  }
  const engine = new Engine(parts)
  const workers = new WorkerService({ engine, parts })
  await engine.start()
  const server = buildServer({
    engine,
    store: rejectChanges(store),
    objects,
    log,
    clock: systemClock,
    random: systemRandom,
    secret: (name) => (name === "HOOK" ? "hook-secret" : null),
    services: createServices({ ...parts, engine, store, wake: () => engine.wake() }),
    explain,
    explainJob: (job) => explainJob({ store, isAlive: () => true }, job),
    metrics: async () => "ork_up 1\n",
    workers,
    push: { hasToken: () => false, receive: async () => false, list: async () => [] },
    ...options,
    config: { apiKey: ADMIN_KEY, folderKey: ADMIN_KEY, version: "1.2.3", ...config },
  })
  await server.app.ready()
  return {
    server,
    store,
    engine,
    executor,
    objects,
    folder,
    logged,
    ...clientOf(server, engine),
    async [Symbol.asyncDispose]() {
      workers.stop()
      await close(server)
      await engine.stop()
      if (closeStore) await store.close()
      await rm(folder, { recursive: true, force: true })
    },
  } satisfies TestServer & AsyncDisposable
}

const engineSettings = (store: ServerStore) =>
  ({
    evaluator: inlineEvaluator,
    clock: systemClock,
    random: systemRandom,
    holder: { kind: "server", name: "test", process: "" },
    concurrency: 16,
    maxFanout: 1000,
    maxOutputBytes: 1 << 20,
    graceMs: 100,
    secret: () => null,
    address: () => "http://ork.test",
    async findWorkflow(name) {
      const found = await store.getWorkflow(name)
      return found === null ? null : { workflowId: found.id, versionId: found.versionId }
    },
  }) satisfies Partial<EngineOptions>

const clientOf = (server: ApiServer, engine: Engine): Pick<TestServer, "call" | "newKey" | "deploy" | "runToEnd"> => {
  const call: TestServer["call"] = async (method, url, { body, key = ADMIN_KEY, headers = {} } = {}) => {
    const options: InjectOptions = {
      method,
      url,
      headers: {
        ...(key !== null && { "x-api-key": key }),
        ...(isJson(body) && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { payload: isJson(body) ? JSON.stringify(body) : (body as string | Buffer) }),
    }
    const { statusCode: status, body: text, headers: received } = await server.app.inject(options)
    return { status, body: parse(text) as TestResponse["body"], text, headers: received }
  }
  return {
    call,
    async newKey(...scopes) {
      return (await call("POST", "/keys", { body: { name: scopes.join(), scopes } })).body["key"] as string
    },
    async deploy(name, tasks, rest = {}) {
      const all = Object.entries(tasks).map(([task, spec]) => [task, typeof spec === "string" ? { command: spec } : spec])
      const { status, text } = await call("POST", "/workflows", { body: { name, tasks: Object.fromEntries(all), ...rest } })
      if (status >= 300) throw new Error(`failed to deploy ${name}: ${text}`)
    },
    async runToEnd(name) {
      const { body } = await call("POST", `/workflows/${name}/runs`)
      await engine.waitForRun(body["id"] as never)
      return body["id"] as string
    },
  }
}

/** Resolves when so many tasks of a run wait without a slot. */
export const untilWaiting = async (api: Pick<TestServer, "store">, runId: string, count: number): Promise<void> => {
  await vi.waitUntil(async () => {
    const tasks = await api.store.listTasks({ runId: runId as RunId, limit: 100 })
    return tasks.filter(({ waitingOn }) => waitingOn !== null).length === count
  })
}
