// `ork worker`: claims tasks from remote servers and runs them on this machine. The first SIGTERM or Ctrl-C drains it, the second
// one ends it immediately. With `--listen`, servers push their tasks to it instead.

import { availableParallelism, hostname } from "node:os"
import { join, resolve } from "node:path"
import { setTimeout } from "node:timers/promises"
import type { Context, HandlerFiles } from "../../target/context.ts"
import { processName } from "../../../engine/system.ts"
import { ClientError } from "../../../protocol/client/errors.ts"
import { NAME } from "../../../core/model/names.ts"
import { notProven, proves, readFolderKey, serverAddress } from "../../target/connect.ts"
import { explainListenError } from "../../target/listen-error.ts"
import { InputError } from "../../terminal/errors.ts"
import { EXIT_INTERRUPTED } from "../../run/outcome.ts"
import { addHandlerExecutors, readHandlers } from "../../target/handlers.ts"
import { exitAfter, onTerminationSignal } from "../../run/signals.ts"
import { parseLabels, parseNames } from "../../terminal/option-values.ts"
import { print } from "../../terminal/output.ts"
import { joinRepeated, loadConfig } from "../../target/load-config.ts"
import { type Config, unknownVariables } from "../../../config.ts"
import type { ObjectStore } from "../../../objects/objects.ts"
import { pushKeyOf } from "../../../protocol/wire/server-proof.ts"
import { listenProblem } from "../../../server/listening.ts"
import { createLog } from "../../../server/log.ts"
import type { PushListenerOptions } from "../../../worker/push/push-listener.ts"
import type { WorkerOptions as WorkerParts } from "../../../worker/worker.ts"

/** Time for open connections to close. */
const EXIT_MS = 5000
/** Time between two questions to a server that does not respond yet. */
const PROOF_RETRY_MS = 1000

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

/** Parts that both kinds of worker use. */
type CommonParts = Pick<WorkerParts, "executors" | "objects" | "dataDir" | "graceMs" | "clock" | "random" | "log">

export const worker = async (context: Context, options: WorkerOptions): Promise<number> => {
  const { apiKey, capacity: concurrency } = options
  const config = await loadConfig(context, { apiKey, concurrency, handlers: joinRepeated(options.handlers) })
  const name = options.name ?? hostname()
  if (!NAME.test(name)) {
    throw new InputError(`--name: "${name}" must consist of at most 128 letters, digits, "_", "." and "-"`)
  }
  const folder = resolve(context.cwd, config.dataDir)
  const dataDir = join(folder, `worker-${name}`)
  const objects = await openLocalObjects(context, config, dataDir)
  const parts = await context.backends.engineParts({ ...config, dataDir }, objects, { folder, service: true })
  const handlers = await readHandlers(context, config.handlers)
  const executors = await addHandlerExecutors(context, handlers, parts.executors)
  const { clock, random } = context.backends
  const log = createLog(context.stderr, config.log)
  for (const warning of unknownVariables(context.env)) log.warn(warning)
  const common = { executors, objects, dataDir, graceMs: config.graceMs, clock, random, log }
  if (options.listen !== undefined) return listen(context, config, options.listen, common)
  return claimFromServers(context, config, options, { common, handlers, displayName: name })
}

const claimFromServers = async (
  context: Context,
  config: Config,
  options: WorkerOptions,
  { common, handlers, displayName }: { common: CommonParts; handlers: HandlerFiles; displayName: string },
): Promise<number> => {
  const found = await findServers(context, config, options)
  const { Worker } = await import("../../../worker/worker.ts")
  const running = new Worker({
    ...common,
    executors: new Map([...common.executors].filter(([, executor]) => executor.remote !== true)),
    ...found,
    name: options.name ?? processName(),
    queues: parseNames("--queue", options.queue ?? "default"),
    labels: parseLabels(options.label),
    handlers: [...handlers.queues.keys()],
    functions: [...handlers.functions.keys()],
    capacity: options.capacity === undefined ? Math.max(16, 4 * availableParallelism()) : config.concurrency,
    version: context.version(),
  })
  onTerminationSignal(
    () => {
      common.log.info({}, "draining: claiming no new work; a second signal ends the process immediately")
      running.stop()
    },
    () => process.exit(EXIT_INTERRUPTED),
  )
  try {
    await running.run((server) => print(context, `ork ${context.version()} worker ${displayName} claims work from ${server}`))
  } catch (error) {
    if (error instanceof ClientError) throw new InputError(`the server rejects this worker: ${error.message}`)
    throw error
  }
  exitAfter(EXIT_MS)
  common.log.info({}, "stopped")
  return 0
}

const listen = async (context: Context, config: Config, port: string, common: CommonParts): Promise<number> => {
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw new InputError(`--listen: "${port}" is not a port`)
  const problem = listenProblem(config, false)
  if (problem !== null) throw new InputError(problem)
  const key = config.pushKey || (await ownPushKey(context, config))
  if (key === null) throw new InputError("--listen needs the push key of the server: give it as ORK_PUSH_KEY")
  const { PushListener } = await import("../../../worker/push/push-listener.ts")
  const { backends } = context
  const listenerOptions: PushListenerOptions = {
    ...common,
    capacity: config.concurrency,
    key,
    host: config.host,
    port: Number(port),
    identity: backends.processIdentity(),
    alive: (identity) => backends.processAlive(identity),
  }
  const listener = new PushListener(listenerOptions)
  const address = await listener.start().catch((error: unknown) => {
    throw explainListenError(error, { host: config.host, port: Number(port), options: "--listen (0 for a free one)" })
  })
  print(context, `ork ${context.version()} worker listens at ${address}`)
  await new Promise<void>((resolve) => onTerminationSignal(resolve, () => process.exit(EXIT_INTERRUPTED)))
  await listener.stop()
  exitAfter(EXIT_MS)
  return 0
}

const findServers = async (
  context: Context,
  config: Config,
  { server }: WorkerOptions,
): Promise<Pick<WorkerParts, "servers" | "key" | "proves">> => {
  const named = server === undefined ? [] : parseNames("--server", server)
  for (const address of named) {
    if (!/^https?:\/\//.test(address) || !URL.canParse(address)) {
      throw new InputError(`--server: "${address}" is not an address such as http://127.0.0.1:4000`)
    }
  }
  const servers = named.map((address) => address.replace(/\/+$/, ""))
  if (servers.length === 0) servers.push((await serverAddress(context, config)).url)
  if (config.apiKey !== "") return { servers, key: config.apiKey }
  const key = await readFolderKey(context, config)
  if (key === null) {
    throw new InputError(
      "a worker needs a key with the scope worker: create one with `ork keys create NAME --scope worker`, and give it as --api-key or ORK_API_KEY",
    )
  }
  await allProve(context, servers, key)
  return { servers, key, proves: async (server) => (await proves(server, key)) === true }
}

/** Waits until every server has proved that it is one of this folder. */
const allProve = async (context: Context, servers: readonly string[], key: string): Promise<void> => {
  for (let waiting = false; ; waiting = true) {
    const found = await Promise.all(servers.map((server) => proves(server, key)))
    const other = found.indexOf(false)
    if (other !== -1) throw notProven(servers[other]!)
    const absent = found.indexOf(null)
    if (absent === -1) return
    if (!waiting) context.stderr.write(`ork: waiting for the server at ${servers[absent]!}\n`)
    await setTimeout(PROOF_RETRY_MS)
  }
}

/** Returns the key of push workers, derived from that of the server; null without one. */
const ownPushKey = async (context: Context, config: Config): Promise<string | null> => {
  const key = config.apiKey || (await readFolderKey(context, config))
  return key === null ? null : pushKeyOf(key)
}

type LocalObjects = ObjectStore & Required<Pick<ObjectStore, "localPath">>

/** Opens the object store in the worker's own folder; the object store of the servers is not used. */
const openLocalObjects = async (context: Context, config: Config, dataDir: string): Promise<LocalObjects> => {
  const objects = await context.backends.openObjects({ ...config, objectStore: `file:${join(dataDir, "objects")}` })
  if (!isLocal(objects)) throw new InputError(`${dataDir} is not a folder of this machine`)
  return objects
}

const isLocal = (objects: ObjectStore): objects is LocalObjects => objects.localPath !== undefined
