// `ork worker`: takes work from servers elsewhere and runs it here. The first SIGTERM or Ctrl-C drains it, the second ends it at once. With
// `--listen` it is the other way round: servers send it their work.

import { availableParallelism, hostname } from "node:os"
import { join, resolve } from "node:path"
import type { Context } from "../target/backends.ts"
import { serverAddress } from "../target/connect.ts"
import { InputError } from "../terminal/errors.ts"
import { EXIT_INTERRUPTED } from "../run/follow.ts"
import { readHandlers, withHandlers } from "../target/handlers.ts"
import { exitWithin, onInterrupt } from "../run/interrupts.ts"
import { print } from "../terminal/output.ts"
import { listed, loadConfig } from "../target/settings.ts"
import type { Config } from "../../config.ts"
import { MAX_LABELS } from "../../core/routing/capabilities.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { createLog } from "../../server/log.ts"
import { LinkError } from "../../worker/connection/link-error.ts"

const EXIT_MS = 5000

export interface WorkerOptions {
  server?: string
  apiKey?: string
  queue?: string
  label: string[]
  capacity?: string
  name?: string
  listen?: string
  handlers: string[]
}

export const worker = async (context: Context, options: WorkerOptions): Promise<number> => {
  const { apiKey, capacity: concurrency } = options
  const config = await loadConfig(context, { apiKey, concurrency, handlers: listed(options.handlers) })
  const name = options.name ?? hostname()
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/.test(name)) {
    throw new InputError(`--name: "${name}" must be letters, digits, "_", "." and "-", at most 128`)
  }
  const dataDir = join(resolve(context.cwd, config.dataDir), `worker-${name}`)
  const objects = await objectsIn(context, config, dataDir)
  const log = createLog(context.stderr, config.log)
  const own = { ...config, dataDir }
  const parts = await context.backends.engineParts(own, objects)
  const handlers = await readHandlers(context, config.handlers)
  const executors = await withHandlers(context, handlers, parts.executors)
  const { clock, random } = context.backends
  const common = { executors, objects, dataDir, graceMs: config.graceMs, clock, random, log }
  if (options.listen !== undefined) return listen(context, config, options.listen, { ...common, capacity: config.concurrency })
  const { servers, key } = await serversOf(context, config, options)
  const { Worker } = await import("../../worker/worker.ts")
  const running = new Worker({
    ...common,
    executors: new Map([...executors].filter(([, executor]) => executor.remote !== true)),
    servers,
    key,
    name: options.name ?? `${hostname()}:${process.pid}`,
    queues: wordsOf("--queue", options.queue ?? "default"),
    labels: labelsOf(options.label),
    handlers: [...handlers.queues.keys()],
    functions: [...handlers.functions.keys()],
    capacity: options.capacity === undefined ? Math.max(16, 4 * availableParallelism()) : config.concurrency,
    version: context.version(),
  })
  onInterrupt(
    () => {
      log.info({}, "draining: nothing new is taken; a second signal ends at once")
      running.stop()
    },
    () => process.exit(EXIT_INTERRUPTED),
  )
  try {
    await running.run((server) => print(context, `ork ${context.version()} worker ${name} takes work from ${server}`))
  } catch (error) {
    if (error instanceof LinkError) throw new InputError(`the server refuses this worker: ${error.message}`)
    throw error
  }
  exitWithin(EXIT_MS)
  log.info({}, "stopped")
  return 0
}

const listen = async (
  context: Context,
  config: Config,
  port: string,
  parts: Omit<
    import("../../worker/push/push-listener.ts").PushListenerOptions,
    "apiKey" | "host" | "port" | "identity" | "alive"
  >,
): Promise<number> => {
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw new InputError(`--listen: "${port}" is not a port`)
  const { key } = await serverAddress(context, config)
  if (key === null) throw new InputError("--listen needs the server's own key: give it as --api-key or ORK_API_KEY")
  const { PushListener } = await import("../../worker/push/push-listener.ts")
  const { backends } = context
  const listener = new PushListener({
    ...parts,
    apiKey: key,
    host: config.host,
    port: Number(port),
    identity: backends.processIdentity(),
    alive: (identity) => backends.processAlive(identity),
  })
  const address = await listener.start()
  print(context, `ork ${context.version()} worker listens at ${address}`)
  await new Promise<void>((resolve) => onInterrupt(resolve, () => process.exit(EXIT_INTERRUPTED)))
  await listener.stop()
  exitWithin(EXIT_MS)
  return 0
}

const serversOf = async (
  context: Context,
  config: Config,
  { server }: WorkerOptions,
): Promise<{ servers: string[]; key: string }> => {
  const given = server === undefined ? [] : wordsOf("--server", server)
  for (const address of given) {
    if (!/^https?:\/\//.test(address) || !URL.canParse(address)) {
      throw new InputError(`--server: "${address}" is not an address such as http://127.0.0.1:4000`)
    }
  }
  const servers = given.map((address) => address.replace(/\/+$/, ""))
  const found = await serverAddress(context, servers.length === 0 ? config : { ...config, url: servers[0]! })
  if (found.key === null) {
    throw new InputError(
      "a worker needs a key with the scope worker: make one with `ork keys create NAME --scope worker`, and give it as --api-key or ORK_API_KEY",
    )
  }
  return { servers: servers.length === 0 ? [found.url] : servers, key: found.key }
}

/** On this machine, whatever the servers use. */
const objectsIn = async (context: Context, config: Config, dataDir: string): Promise<LocalObjects> => {
  const objects = await context.backends.openObjects({ ...config, objectStore: `file:${join(dataDir, "objects")}` })
  if (!isLocal(objects)) throw new InputError(`${dataDir} is no folder of this machine`)
  return objects
}

type LocalObjects = ObjectStore & Required<Pick<ObjectStore, "localPath">>

const isLocal = (objects: ObjectStore): objects is LocalObjects => objects.localPath !== undefined

const wordsOf = (flag: string, text: string): string[] => {
  const words = text.split(",").map((word) => word.trim())
  if (words.includes("")) throw new InputError(`${flag}: "${text}" has an empty name; write it like a,b`)
  return [...new Set(words)]
}

const labelsOf = (given: readonly string[]): string[] => {
  const labels = [...new Set(given.flatMap((text) => wordsOf("--label", text)))]
  if (labels.length > MAX_LABELS) throw new InputError(`--label: a worker has at most ${MAX_LABELS} labels`)
  return labels
}
