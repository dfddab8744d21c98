// A worker in a program of the user's own: the same that `ork worker` is, but that it runs functions of this process and nothing else.
// Loaded by `startWorker` alone.

import { mkdtemp, readFile, rm } from "node:fs/promises"
import { hostname, tmpdir } from "node:os"
import { join } from "node:path"
import { QUEUE_NAME, QUEUE_NAME_HINT } from "../core/model/queue-name.ts"
import { type AnyFunction, FUNCTION_EXECUTOR } from "../core/model/function.ts"
import { HANDLER_EXECUTOR } from "../core/rules/job-node.ts"
import { systemClock, systemRandom } from "../engine/system.ts"
import type { Executor } from "../executors/executor.ts"
import { InProcessExecutor, type InProcessOptions } from "../executors/node/in-process.ts"
import { checkFunction, registeredFunctions } from "../executors/registry.ts"
import { FileObjectStore } from "../objects/file/file.ts"
import { ServerError } from "../worker/connection/server-error.ts"
import { Worker } from "../worker/worker.ts"
import type { RunningWorker, WorkerLog, WorkerSettings } from "./worker-settings.ts"

const CAPACITY = 16
const GRACE_MS = 10_000
const MANIFEST = new URL("../../package.json", import.meta.url)

export const startWorker = async (settings: WorkerSettings): Promise<RunningWorker> => {
  settings.signal?.throwIfAborted()
  const functions = functionsOf(settings.functions)
  const handlers = handlersOf(settings.handlers)
  if (functions.size + handlers.size === 0) {
    throw new TypeError("startWorker: there is nothing to run; give it functions or handlers, or register functions before")
  }
  const { name = `${hostname()}:${process.pid}`, log = STDERR, capacity = CAPACITY, graceMs = GRACE_MS } = settings
  const key = settings.apiKey ?? process.env["ORK_API_KEY"]
  if (key === undefined || key === "") {
    throw new TypeError(
      "startWorker: give it a key with the scope worker as apiKey or ORK_API_KEY; `ork keys create NAME --scope worker` makes one",
    )
  }
  const servers = serversOf(settings.server)
  const { version } = JSON.parse(await readFile(MANIFEST, "utf8")) as { version: string }
  const dataDir = settings.dataDir ?? (await mkdtemp(join(tmpdir(), "ork-worker-")))
  const objects = new FileObjectStore(join(dataDir, "objects"))
  const make = (kind: Pick<InProcessOptions, "name" | "functions" | "nameOf">): [string, Executor] => [
    kind.name,
    new InProcessExecutor({ ...kind, objects, clock: systemClock }),
  ]
  const worker = new Worker({
    servers,
    key,
    name,
    queues: [...(settings.queues ?? ["default"])],
    labels: [...(settings.labels ?? [])],
    handlers: [...handlers.keys()],
    functions: [...functions.keys()],
    functionsOnly: true,
    capacity,
    version,
    executors: new Map([
      make({ name: FUNCTION_EXECUTOR, functions, nameOf: (node) => node.function ?? "" }),
      make({ name: HANDLER_EXECUTOR, functions: handlers, nameOf: ({ queue }) => queue }),
    ]),
    objects,
    dataDir,
    graceMs,
    clock: systemClock,
    random: systemRandom,
    log,
  })
  const ready = Promise.withResolvers<string>()
  const onAbort = (): void => worker.stop()
  const serve = async (): Promise<void> => {
    settings.signal?.addEventListener("abort", onAbort, { once: true })
    try {
      await worker.run(ready.resolve)
    } finally {
      settings.signal?.removeEventListener("abort", onAbort)
      if (settings.dataDir === undefined) await rm(dataDir, { recursive: true, force: true })
    }
  }
  const ended = serve()
  // An end before it was ready is the answer; once it is, it ends only when it is told to.
  ended.then(
    () => ready.reject(settings.signal?.reason),
    (error: unknown) => ready.reject(refusal(error)),
  )
  const server = await ready.promise
  const stop = async (): Promise<void> => {
    worker.stop()
    await ended
  }
  return { name, server, stop, [Symbol.asyncDispose]: stop }
}

const functionsOf = (given: WorkerSettings["functions"] = {}): Map<string, AnyFunction> => {
  const functions = new Map(registeredFunctions())
  for (const [name, call] of Object.entries(given)) {
    checkFunction(name, call)
    if (functions.has(name)) throw new Error(`a function ${name} is registered already`)
    functions.set(name, call)
  }
  return functions
}

const handlersOf = (given: WorkerSettings["handlers"] = {}): Map<string, AnyFunction> => {
  const handlers = Object.entries(given)
  for (const [queue, call] of handlers) {
    if (!QUEUE_NAME.test(queue)) throw new TypeError(`"${queue}" is not a valid queue name: ${QUEUE_NAME_HINT}`)
    if (typeof call !== "function") throw new TypeError(`the handler of the queue ${queue} is no function`)
  }
  return new Map(handlers)
}

const serversOf = (given: WorkerSettings["server"] = process.env["ORK_URL"] || "http://127.0.0.1:4000"): string[] => {
  const servers = typeof given === "string" ? given.split(",").map((address) => address.trim()) : [...given]
  const bad = servers.find((address) => !/^https?:\/\//.test(address) || !URL.canParse(address))
  if (bad !== undefined || servers.length === 0) {
    throw new TypeError(`startWorker: "${bad ?? ""}" is not an address of a server such as http://127.0.0.1:4000`)
  }
  return servers.map((address) => address.replace(/\/+$/, ""))
}

const refusal = (error: unknown): unknown =>
  error instanceof ServerError ? new Error(`the server refuses this worker: ${error.message}`, { cause: error }) : error

const say =
  (level: string) =>
  (fields: object, message: string): void =>
    void process.stderr.write(`ork worker: ${level}${message} ${JSON.stringify(fields)}\n`)

const STDERR: WorkerLog = { info: () => {}, warn: say(""), error: say("error: ") }
