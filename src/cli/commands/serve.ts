// `ork serve`: API, scheduler and a local worker in one process. Says where to go; the first SIGTERM or Ctrl-C drains it, the second
// ends it at once.

import { stat } from "node:fs/promises"
import { relative, resolve } from "node:path"
import type { Context } from "../target/backends.ts"
import { InputError } from "../terminal/errors.ts"
import { EXIT_INTERRUPTED } from "../run/follow.ts"
import { readHandlers, withHandlers } from "../target/handlers.ts"
import { exitWithin, onInterrupt } from "../run/interrupts.ts"
import { openWritableObjects } from "../target/open.ts"
import { print } from "../terminal/output.ts"
import { writeServerFile } from "../target/server-file.ts"
import { listed, loadConfig, type StoreFlags } from "../target/settings.ts"
import type { Config } from "../../config.ts"
import { ensureAdminKey } from "../../server/admin-key.ts"
import { createLog } from "../../server/log.ts"
import { startServer } from "../../server/server.ts"

/** For the store to close. */
const EXIT_MS = 5000

export interface ServeOptions extends StoreFlags {
  host?: string
  port?: string
  concurrency?: string
  dir?: string
  queue?: string
  handlers: string[]
  /** `--no-worker` makes it false. */
  worker?: boolean
}

export const serve = async (context: Context, options: ServeOptions): Promise<number> => {
  const { backends } = context
  const { host, port, concurrency, databaseUrl, objectStore } = options
  const flags = { host, port, concurrency, databaseUrl, objectStore, handlers: listed(options.handlers) }
  const config = await loadConfig(context, flags)
  const queues = queuesOf(options)
  const folder = options.dir === undefined ? null : await folderOf(context, options.dir)
  const handlers = await readHandlers(context, options.worker === false ? [] : config.handlers)
  const objects = await openWritableObjects(context, config)
  const store = (await backends.openStore(config, { create: true }))!
  try {
    const made = config.apiKey === "" ? await ensureAdminKey(resolve(context.cwd, config.dataDir), backends.random) : null
    const log = createLog(context.stderr, config.log)
    const ended = interrupted(() => log.info("draining: nothing new is taken; a second signal ends at once"))
    const parts = await backends.engineParts(config, objects)
    const server = await startServer({
      ...parts,
      executors: await withHandlers(context, handlers, parts.executors),
      handlers: [...handlers.queues.keys()],
      functions: [...handlers.functions.keys()],
      config,
      store,
      objects,
      clock: backends.clock,
      random: backends.random,
      log,
      version: context.version(),
      apiKey: made?.key ?? config.apiKey,
      identity: backends.processIdentity(),
      alive: (identity) => backends.processAlive(identity),
      env: context.env,
      queues,
      folder,
    }).catch((error: unknown) => {
      throw listenProblem(error, config)
    })
    const forget = await writeServerFile(resolve(context.cwd, config.dataDir), server.address)
    const lines = [
      `ork ${context.version()} is ready at ${server.address}`,
      `sign in with a browser (once, within an hour): ${server.signInLink()}`,
      ...(made === null ? [] : [`the admin key is in ${relative(context.cwd, made.file)}`]),
    ]
    print(context, lines.join("\n"))
    await ended
    await forget()
    await server.stop()
    exitWithin(EXIT_MS)
    log.info("stopped")
    return 0
  } finally {
    await store.close()
  }
}

/** Resolves at the first signal; the second ends the process, and with it all of its tasks. */
const interrupted = (told: () => void): Promise<void> =>
  new Promise((resolve) => {
    onInterrupt(
      () => {
        told()
        resolve()
      },
      () => process.exit(EXIT_INTERRUPTED),
    )
  })

/** What the system says of an address that cannot be listened at, with what to do. */
const listenProblem = (error: unknown, { host, port }: Config): unknown => {
  if (!(error instanceof Error) || !("code" in error)) return error
  switch (error.code) {
    case "EADDRINUSE":
      return new InputError(`port ${port} is taken; choose another with --port or ORK_PORT (0 takes a free one)`)
    case "EACCES":
      return new InputError(`port ${port} is not for this user; choose one above 1023 with --port or ORK_PORT`)
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return new InputError(`${host} is no address of this machine; choose another with --host or ORK_HOST`)
    default:
      return error
  }
}

const queuesOf = ({ queue, handlers, worker }: ServeOptions): "all" | string[] => {
  if (worker === false) {
    if (queue !== undefined)
      throw new InputError("--no-worker takes no work, so --queue has nothing to name; leave one of them out")
    if (handlers.length > 0)
      throw new InputError("--no-worker takes no work, so --handlers has none to run; leave one of them out")
    return []
  }
  if (queue === undefined) return "all"
  const names = queue.split(",").map((name) => name.trim())
  if (names.includes("")) throw new InputError(`--queue: "${queue}" has an empty name; write it like fast,slow`)
  return names
}

const folderOf = async (context: Context, dir: string): Promise<string> => {
  const folder = resolve(context.cwd, dir)
  const found = await stat(folder).catch(() => null)
  if (found?.isDirectory() !== true) throw new InputError(`--dir: ${dir} is no folder`)
  return folder
}
