// A worker inside a user's program: like `ork worker`, but it only runs functions of this process. Loaded by `startWorker` of the SDK.

import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { QUEUE_NAME, QUEUE_NAME_HINT } from "../core/model/names.ts"
import { ClientError } from "../protocol/client/errors.ts"
import { type AnyFunction, FUNCTION_EXECUTOR } from "../core/model/function.ts"
import { HANDLER_EXECUTOR } from "../core/rules/jobs/job-workflow.ts"
import { orkVersion, processName, systemClock, systemRandom } from "../engine/system.ts"
import type { Executor } from "../executors/executor.ts"
import { InProcessExecutor, type InProcessOptions } from "../executors/node/in-process.ts"
import { checkFunction, registeredFunctions } from "../executors/registry.ts"
import { FileObjectStore } from "../objects/file/file.ts"
import { Worker } from "../worker/worker.ts"
import { checkNames, WORKER } from "./option-names.ts"
import { stallMsOf } from "./stall-limit.ts"
import { stderrLog } from "./stderr-log.ts"
import type { RunningWorker, WorkerSettings } from "./worker-settings.ts"

/** As `Ork.open` has it. */
const DEFAULT_CAPACITY = 100
const DEFAULT_GRACE_MS = 10_000

export const startWorker = async (settings: WorkerSettings): Promise<RunningWorker> => {
  checkNames(settings, WORKER, "startWorker")
  settings.signal?.throwIfAborted()
  const { name = processName(), signal } = settings
  const functions = functionsOf(settings.functions)
  const handlers = handlersOf(settings.handlers)
  if (functions.size + handlers.size === 0) {
    throw new TypeError("startWorker: there is nothing to run; give it functions or handlers, or register functions before")
  }
  const key = keyOf(settings.apiKey)
  const servers = serversOf(settings.server)
  const dataDir = settings.dataDir ?? (await mkdtemp(join(tmpdir(), "ork-worker-")))
  const worker = await createWorker(settings, { name, key, servers, dataDir, functions, handlers })
  const registered = Promise.withResolvers<string>()
  const run = async (): Promise<void> => {
    const onAbort = (): void => worker.stop()
    signal?.addEventListener("abort", onAbort, { once: true })
    try {
      await worker.run(registered.resolve)
    } finally {
      signal?.removeEventListener("abort", onAbort)
      if (settings.dataDir === undefined) await rm(dataDir, { recursive: true, force: true })
    }
  }
  const ended = run()
  // Reports an end before the registration. After it, the worker ends only when it is stopped.
  ended.then(
    () => registered.reject(signal?.reason),
    (error: unknown) => registered.reject(rejectionOf(error)),
  )
  const server = await registered.promise
  const stop = async (): Promise<void> => {
    worker.stop()
    await ended
  }
  return { name, server, stop, [Symbol.asyncDispose]: stop }
}

interface CheckedSettings {
  name: string
  key: string
  servers: string[]
  dataDir: string
  functions: ReadonlyMap<string, AnyFunction>
  handlers: ReadonlyMap<string, AnyFunction>
}

const createWorker = async (settings: WorkerSettings, checked: CheckedSettings): Promise<Worker> => {
  const { log = stderrLog("ork worker"), capacity = DEFAULT_CAPACITY, graceMs = DEFAULT_GRACE_MS } = settings
  const { name, key, servers, dataDir, functions, handlers } = checked
  const objects = new FileObjectStore(join(dataDir, "objects"))
  const executor = (options: Pick<InProcessOptions, "name" | "functions" | "nameOf">): [string, Executor] => [
    options.name,
    new InProcessExecutor({ ...options, objects, clock: systemClock }),
  ]
  return new Worker({
    servers,
    key,
    name,
    queues: [...(settings.queues ?? ["default"])],
    labels: [...(settings.labels ?? [])],
    handlers: [...handlers.keys()],
    functions: [...functions.keys()],
    functionsOnly: true,
    capacity,
    version: orkVersion(),
    executors: new Map([
      executor({ name: FUNCTION_EXECUTOR, functions, nameOf: (node) => node.function ?? "" }),
      executor({ name: HANDLER_EXECUTOR, functions: handlers, nameOf: ({ queue }) => queue }),
    ]),
    objects,
    dataDir,
    graceMs,
    stallMs: stallMsOf(settings.stallLimit),
    clock: systemClock,
    random: systemRandom,
    log,
  })
}

const keyOf = (given: string | undefined): string => {
  const key = given ?? process.env["ORK_API_KEY"]
  if (key !== undefined && key !== "") return key
  throw new TypeError(
    "startWorker: give it a key with the scope worker as apiKey or ORK_API_KEY; `ork keys create NAME --scope worker` creates one",
  )
}

const functionsOf = (given: WorkerSettings["functions"] = {}): Map<string, AnyFunction> => {
  const functions = new Map(registeredFunctions())
  for (const [name, call] of Object.entries(given)) {
    checkFunction(name, call)
    if (functions.has(name)) throw new Error(`a function ${name} is already registered`)
    functions.set(name, call)
  }
  return functions
}

const handlersOf = (given: WorkerSettings["handlers"] = {}): Map<string, AnyFunction> => {
  const handlers = Object.entries(given)
  for (const [queue, call] of handlers) {
    if (!QUEUE_NAME.test(queue)) throw new TypeError(`"${queue}" is not a valid queue name: ${QUEUE_NAME_HINT}`)
    if (typeof call !== "function") throw new TypeError(`the handler of the queue ${queue} is not a function`)
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

const rejectionOf = (error: unknown): unknown =>
  error instanceof ClientError ? new Error(`the server rejects this worker: ${error.message}`, { cause: error }) : error
