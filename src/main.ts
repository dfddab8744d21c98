// The composition root: the only file that names concrete backends. Everything is loaded when it is needed, after the compile
// cache is on, so that a short command starts fast.

import { enableCompileCache } from "node:module"
import { availableParallelism, homedir } from "node:os"
import { dirname, join } from "node:path"
import type { Backends, Context } from "./cli/target/context.ts"
import type { Fetch } from "./core/model/ports.ts"
import type { Config } from "./config.ts"
import type { Executor } from "./executors/executor.ts"
import type { ObjectStore } from "./objects/objects.ts"
import type { Runtime } from "./executors/pool/runtime.ts"
import type { ServerStore } from "./store/contract/server-store.ts"

enableCompileCache(join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "ork", "compile"))

const { existsSync, mkdirSync, readFileSync } = await import("node:fs")
const { main } = await import("./cli/program.ts")
const { systemClock, systemRandom } = await import("./engine/system.ts")
const { messageOf } = await import("./core/model/error-message.ts")
const { parseObjectAddress } = await import("./core/settings/object-address.ts")
const { StoreUnavailable } = await import("./store/contract/errors.ts")
const { processIdentity, processIsDead } = await import("./store/sqlite/connection/process-identity.ts")

const SQLITE = "sqlite:"
/** Per core: while the engine commits, each of them has a task to go on with. */
const FUNCTION_WORKERS = 4

const openSqliteStore = async (path: string, create: boolean): Promise<ServerStore | null> => {
  if (!create && !existsSync(path)) return null
  const { openSqlite } = await import("./store/sqlite/sqlite.ts")
  try {
    mkdirSync(dirname(path), { recursive: true })
    return await openSqlite({ path, clock: systemClock, random: systemRandom, isDead: ({ process }) => processIsDead(process) })
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error
    const reason = messageOf(error)
    throw new StoreUnavailable(path, `${reason}; point ORK_DATABASE_URL at a file that can be written`, { cause: error })
  }
}

const openPostgresStore = async (url: string): Promise<ServerStore> => {
  const { openPostgres } = await import("./store/postgres/postgres.ts")
  return openPostgres({ url, random: systemRandom })
}

const openStore = async ({ databaseUrl }: Config, { create }: { create: boolean }): Promise<ServerStore | null> => {
  const store = databaseUrl.startsWith(SQLITE)
    ? await openSqliteStore(databaseUrl.slice(SQLITE.length), create)
    : await openPostgresStore(databaseUrl)
  try {
    await store?.migrate()
  } catch (error) {
    await store?.close()
    throw error
  }
  return store
}

const openObjects: Backends["openObjects"] = async ({ objectStore }) => {
  const address = parseObjectAddress(objectStore)
  switch (address?.kind) {
    case "file": {
      const { FileObjectStore } = await import("./objects/file/file.ts")
      return new FileObjectStore(address.folder)
    }
    case "s3": {
      const { S3ObjectStore } = await import("./objects/s3/s3.ts")
      return new S3ObjectStore(address)
    }
    case "gcs": {
      const { GcsObjectStore } = await import("./objects/gcs/gcs.ts")
      return new GcsObjectStore(address)
    }
    case undefined:
      throw new Error(`${objectStore} is no address of an object store`)
    default:
      return address satisfies never
  }
}

const processExecutor = async (config: Config, objects: ObjectStore) => {
  const { ProcessExecutor } = await import("./executors/process/process.ts")
  return new ProcessExecutor({ objects, clock: systemClock, helper: "auto", dataDir: config.dataDir })
}

/** Where a request may go is decided by the one policy of this process; its library is loaded with the first. */
const lazyFetch = ({ httpAllow }: Config): Fetch => {
  let loading: Promise<Fetch> | null = null
  const load = async (): Promise<Fetch> => {
    const { guardedFetch, httpPolicy } = await import("./executors/http/guarded-fetch.ts")
    const policy = httpPolicy({ allow: httpAllow })
    return (url, init) => guardedFetch(url, { redirects: 0, ...init }, policy)
  }
  return async (url, init) => await (await (loading ??= load()))(url, init)
}

const functionExecutor = async (runtime: Runtime, config: Config, objects: ObjectStore): Promise<Executor> => {
  const { FunctionExecutor } = await import("./executors/pool/function-executor.ts")
  return new FunctionExecutor({
    runtime,
    objects,
    clock: systemClock,
    helper: "auto",
    maxWorkers: config.concurrency,
    eagerWorkers: FUNCTION_WORKERS * availableParallelism(),
    maxTasks: config.functionTasks,
    idleMs: config.functionIdleMs,
  })
}

/** Each is loaded with its first task. */
const lazyExecutors = async (config: Config, objects: ObjectStore): Promise<Executor[]> => {
  const { LazyExecutor } = await import("./executors/lazy.ts")
  const clock = systemClock
  return [
    new LazyExecutor({
      name: "http",
      clock,
      async load() {
        const { HttpExecutor } = await import("./executors/http/http.ts")
        return new HttpExecutor({ objects, clock, allow: config.httpAllow })
      },
    }),
    new LazyExecutor({
      name: "node",
      clock,
      async load() {
        const { nodeRuntime } = await import("./executors/node/runtime.ts")
        return functionExecutor(nodeRuntime, config, objects)
      },
    }),
    new LazyExecutor({
      name: "python",
      clock,
      async load() {
        const { pythonRuntime } = await import("./executors/python/runtime.ts")
        return functionExecutor(pythonRuntime, config, objects)
      },
    }),
    new LazyExecutor({
      name: "docker",
      clock,
      needsCleanup: () => existsSync(join(config.dataDir, "docker/owners")),
      async load() {
        const { DockerExecutor } = await import("./executors/docker/docker.ts")
        return new DockerExecutor({ objects, clock, dataDir: config.dataDir, env: process.env })
      },
    }),
    new LazyExecutor({
      name: "kubernetes",
      remote: true,
      clock,
      async load() {
        const { KubernetesExecutor } = await import("./executors/kubernetes/kubernetes.ts")
        const { createLog } = await import("./server/log.ts")
        const log = createLog(process.stderr, config.log).child({ part: "kubernetes" })
        const { kubeconfig, kubernetesNamespace: namespace, kubernetesTtlMs: ttlMs, objectStore: store } = config
        return new KubernetesExecutor({ objects, store, clock, log, kubeconfig, namespace, ttlMs, env: process.env })
      },
    }),
    new LazyExecutor({
      name: "slurm",
      remote: true,
      clock,
      async load() {
        const { SlurmExecutor } = await import("./executors/slurm/slurm.ts")
        const { slurmDir: folder, slurmCommand: command } = config
        return new SlurmExecutor({ objects, clock, folder, command, env: process.env })
      },
    }),
    new LazyExecutor({
      name: "cloudrun",
      remote: true,
      clock,
      async load() {
        const { CloudRunExecutor } = await import("./executors/cloudrun/cloudrun.ts")
        const { cloudrunProject: project, cloudrunRegion: region, objectStore: store } = config
        const { cloudrunEndpoint: endpoint, cloudrunLoggingEndpoint: loggingEndpoint } = config
        return new CloudRunExecutor({ objects, store, clock, project, region, endpoint, loggingEndpoint })
      },
    }),
  ]
}

const backends: Backends = {
  clock: systemClock,
  random: systemRandom,
  openStore,
  openObjects,
  async engineParts(config, objects) {
    const { createEvaluator } = await import("./engine/gate/evaluator.ts")
    const executor = await processExecutor(config, objects)
    const { openSecrets } = await import("./secrets/open.ts")
    const secrets = openSecrets(config, { env: process.env, cwd: process.cwd(), clock: systemClock })
    return {
      executors: new Map([executor, ...(await lazyExecutors(config, objects))].map((one) => [one.name, one])),
      evaluator: createEvaluator(),
      secret: (name) => secrets.find(name),
      fetch: lazyFetch(config),
    }
  },
  async handlerNames(file) {
    const { handlerNames } = await import("./executors/node/handlers.ts")
    return handlerNames(file)
  },
  async handlerExecutors(files, node) {
    const { handlerExecutors } = await import("./executors/node/handlers.ts")
    return handlerExecutors(files, node, systemClock)
  },
  processIdentity: () => processIdentity(),
  processAlive: (identity) => !processIsDead(identity),
  async inspect(config) {
    const { DatabaseSync } = await import("node:sqlite")
    const database = new DatabaseSync(":memory:")
    const { version } = database.prepare("SELECT sqlite_version() AS version").get() as { version: string }
    database.close()
    const { runProbes } = await import("./executors/probes.ts")
    const { kubeconfig, slurmCommand } = config
    const surroundings = await runProbes({ env: process.env, kubeconfig, slurmCommand, clock: systemClock })
    const sqlite = `version ${version}`
    const executor = await processExecutor(config, await backends.openObjects(config))
    try {
      return { sqlite, surroundings, spawn: await executor.describe() }
    } catch (error) {
      return { sqlite, surroundings, spawn: { problem: String(error) } }
    } finally {
      await executor.stop()
    }
  },
}

const context: Context = {
  backends,
  env: process.env,
  cwd: process.cwd(),
  version() {
    const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }
    return manifest.version
  },
  stdout: process.stdout,
  stderr: process.stderr,
}

// Nobody reads any more (`ork runs | head`): no reason to go on, and no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0)
  throw error
})

process.exitCode = await main(context, process.argv.slice(2))
