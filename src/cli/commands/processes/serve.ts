// `ork serve`: runs the API, the scheduler and a local worker in one process, and prints its address. The first SIGTERM or Ctrl-C
// drains it, the second one ends it immediately.

import { stat } from "node:fs/promises"
import { relative, resolve } from "node:path"
import type { Context } from "../../target/context.ts"
import { explainListenError } from "../../target/listen-error.ts"
import { InputError } from "../../terminal/errors.ts"
import { EXIT_INTERRUPTED } from "../../run/outcome.ts"
import { addHandlerExecutors, readHandlers } from "../../target/handlers.ts"
import { exitAfter, onTerminationSignal } from "../../run/signals.ts"
import { openWritableObjects } from "../../target/stores.ts"
import { parseLabels, parseNames } from "../../terminal/option-values.ts"
import { print } from "../../terminal/output.ts"
import { writeServerFile } from "../../target/server-file.ts"
import { joinRepeated, loadConfig, type StoreFlags } from "../../target/load-config.ts"
import { type Config, unknownVariables } from "../../../config.ts"
import { messageOf } from "../../../core/values/error-message.ts"
import { ensureAdminKey } from "../../../server/admin-key.ts"
import { listenProblem, readTls, type Tls } from "../../../server/listening.ts"
import { createLog } from "../../../server/log.ts"
import { type RunningServer, type ServerOptions, startServer } from "../../../server/server.ts"

/** Time for the store to close. */
const EXIT_MS = 5000

export interface ServeOptions extends StoreFlags {
  host?: string
  port?: string
  tlsCert?: string
  tlsKey?: string
  insecureHttp?: boolean
  concurrency?: string
  dir?: string
  queue?: string
  label: string[]
  handlers: string[]
  /** False with `--no-worker`. */
  worker?: boolean
}

export const serve = async (context: Context, options: ServeOptions): Promise<number> => {
  const { backends } = context
  const config = await readConfig(context, options)
  const request = await readRequest(context, options, config)
  const objects = await openWritableObjects(context, config)
  const store = (await backends.openStore(config, { create: true }))!
  try {
    const dataDir = resolve(context.cwd, config.dataDir)
    const adminKey = config.apiKey === "" ? await ensureAdminKey(dataDir, backends.random) : null
    const log = createLog(context.stderr, config.log)
    for (const warning of unknownVariables(context.env)) log.warn(warning)
    const signalled = firstSignal(() =>
      log.info("draining: claiming no new work; a second signal ends the process immediately"),
    )
    const server = await start(context, request, { config, objects, store, dataDir, adminKey: adminKey?.key ?? null, log })
    const removeServerFile = await writeServerFile(dataDir, server.address)
    const lines = [
      `ork ${context.version()} is ready at ${server.address}`,
      `sign in with a browser (once, within an hour): ${server.signInLink()}`,
      ...(adminKey === null ? [] : [`the admin key is in ${relative(context.cwd, adminKey.file)}`]),
    ]
    print(context, lines.join("\n"))
    await signalled
    await removeServerFile()
    await server.stop()
    exitAfter(EXIT_MS)
    log.info("stopped")
    return 0
  } finally {
    await store.close()
  }
}

const readConfig = (context: Context, options: ServeOptions): Promise<Config> => {
  const { host, port, tlsCert, tlsKey, concurrency, databaseUrl, objectStore } = options
  const handlers = joinRepeated(options.handlers)
  const insecureHttp = options.insecureHttp === true ? "true" : undefined
  return loadConfig(context, { host, port, tlsCert, tlsKey, concurrency, databaseUrl, objectStore, handlers, insecureHttp })
}

/** Checks the options before anything is opened, and returns what they ask for. */
interface ServeRequest {
  tls: Tls | null
  queues: "all" | string[]
  labels: string[]
  folder: string | null
  handlers: Awaited<ReturnType<typeof readHandlers>>
}

const readRequest = async (context: Context, options: ServeOptions, config: Config): Promise<ServeRequest> => {
  const tls = await readTls(config, context.cwd).catch((error: unknown) => {
    throw new InputError(messageOf(error))
  })
  const problem = listenProblem(config, tls !== null)
  if (problem !== null) throw new InputError(problem)
  return {
    tls,
    queues: parseQueues(options),
    labels: parseLabels(options.label),
    folder: options.dir === undefined ? null : await parseFolder(context, options.dir),
    handlers: await readHandlers(context, options.worker === false ? [] : config.handlers),
  }
}

interface ServeParts extends Pick<ServerOptions, "config" | "store" | "objects" | "log"> {
  dataDir: string
  /** The server's own key; null: the configuration has one. */
  adminKey: string | null
}

const start = async (
  context: Context,
  request: ServeRequest,
  { dataDir, adminKey, ...opened }: ServeParts,
): Promise<RunningServer> => {
  const { backends } = context
  const { config, objects, log } = opened
  const { handlers, folder, ...requested } = request
  const parts = await backends.engineParts(config, objects, { folder: dataDir, service: true, served: folder })
  const server = await startServer({
    ...parts,
    ...opened,
    ...requested,
    folder,
    executors: await addHandlerExecutors(context, handlers, parts.executors),
    handlers: [...handlers.queues.keys()],
    functions: [...handlers.functions.keys()],
    openObjects: (address) => backends.openBucket(config, address),
    clock: backends.clock,
    random: backends.random,
    version: context.version(),
    apiKey: adminKey ?? config.apiKey,
    ...(adminKey !== null && { folderKey: adminKey }),
    identity: backends.processIdentity(),
    isAlive: (identity) => backends.processAlive(identity),
    env: context.env,
  }).catch((error: unknown) => {
    throw explainListenError(error, { ...config, options: "--port or ORK_PORT (0 for a free one)" })
  })
  const protections = await parts.protections()
  if (protections === null) log.warn("tasks are not confined (sandbox: off)")
  else log.info(protections, protections.missing.length === 0 ? "tasks are confined" : "tasks are confined in part")
  return server
}

/** Resolves at the first signal. The second one exits the process, which kills all of its tasks. */
const firstSignal = (onSignal: () => void): Promise<void> =>
  new Promise((resolve) => {
    onTerminationSignal(
      () => {
        onSignal()
        resolve()
      },
      () => process.exit(EXIT_INTERRUPTED),
    )
  })

const parseQueues = ({ queue, label, handlers, worker }: ServeOptions): "all" | string[] => {
  if (worker === false) {
    const used = { "--queue": queue !== undefined, "--label": label.length > 0, "--handlers": handlers.length > 0 }
    for (const [option, isUsed] of Object.entries(used)) {
      if (isUsed) throw new InputError(`--no-worker claims no work, so ${option} has no effect; leave out one of them`)
    }
    return []
  }
  return queue === undefined ? "all" : parseNames("--queue", queue)
}

const parseFolder = async (context: Context, dir: string): Promise<string> => {
  const folder = resolve(context.cwd, dir)
  const found = await stat(folder).catch(() => null)
  if (found?.isDirectory() !== true) throw new InputError(`--dir: ${dir} is not a folder`)
  return folder
}
