// The composition root: the only file of the command that names concrete backends. Modules of backends are imported on first use, so that
// short commands start fast.

import { closeSync, existsSync, mkdirSync, openSync, realpathSync } from "node:fs"
import { availableParallelism, totalmem } from "node:os"
import { dirname, join, relative, resolve } from "node:path"
import { silenceMs } from "./core/settings/leases.ts"
import type { Backends, Context, EngineUse, Inspection } from "./cli/target/context.ts"
import { messageOf } from "./core/values/error-message.ts"
import type { Fetch, SecretSource } from "./core/model/ports.ts"
import { parseObjectAddress } from "./core/settings/object-address.ts"
import { explainMissing } from "./core/settings/optional-packages.ts"
import { type Config, sqliteFile } from "./config.ts"
import type { ConditionProbes } from "./engine/ports.ts"
import { systemClock, systemRandom, orkVersion } from "./engine/system.ts"
import type { Executor } from "./executors/executor.ts"
import type { LazyOptions } from "./executors/lazy.ts"
import type { ObjectStore } from "./objects/objects.ts"
import { createDurableFolder } from "./objects/shared/durable-file.ts"
import type { HelperChoice } from "./executors/process/helper-supply.ts"
import type { ProcessExecutor } from "./executors/process/process.ts"
import type { Pythons } from "./executors/interpreter/pythons.ts"
import type { Runtime } from "./executors/pool/runtime.ts"
import type { Sandbox } from "./executors/process/sandbox.ts"
import { StoreUnavailable } from "./store/contract/errors.ts"
import type { ServerStore } from "./store/contract/server-store.ts"
import { processIdentity, processIsDead } from "./store/sqlite/connection/process-identity.ts"

// -- stores ------------------------------------------------------------------------------------------------------------------------

/** Returns null when the file does not exist and `create` is false. */
const openSqliteStore = async (path: string, create: boolean): Promise<ServerStore | null> => {
  if (!create && !existsSync(path)) return null
  const { openSqlite } = await import("./store/sqlite/sqlite.ts")
  try {
    await createDurableFolder(resolve(dirname(path)))
    // SQLite gives its other files the mode of this one.
    closeSync(openSync(path, "a", 0o600))
    return await openSqlite({ path, clock: systemClock, random: systemRandom, isDead: ({ process }) => processIsDead(process) })
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error
    const reason = messageOf(error)
    throw new StoreUnavailable(path, `${reason}; point ORK_DATABASE_URL at a file that can be written`, { cause: error })
  }
}

const openPostgresStore = async (url: string): Promise<ServerStore> => {
  const { openPostgres } = await import("./store/postgres/postgres.ts").catch(explainMissing("Postgres"))
  return openPostgres({ url, random: systemRandom })
}

const openStore: Backends["openStore"] = async (config, { create, migrate }) => {
  const file = sqliteFile(config)
  const store = file === null ? await openPostgresStore(config.databaseUrl) : await openSqliteStore(file, create)
  if (migrate === false) return store
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
  if (address === null) throw new Error(`${objectStore} is not an address of an object store`)
  const { openObjectStore } = await import("./objects/open.ts")
  return openObjectStore(address)
}

// -- executors ---------------------------------------------------------------------------------------------------------------------

type ExecutorLoader = (config: EngineConfig, objects: ObjectStore) => Promise<Executor>

type EngineConfig = Config & { confinement: Sandbox | undefined }

/** Returns how tasks are confined; undefined with `sandbox: off`. */
const confinementOf = async (config: Config, { folder, service, served }: EngineUse): Promise<Sandbox | undefined> => {
  const { concealSecrets } = await import("./executors/process/conceal.ts")
  const readable = await concealSecrets()
  if (config.sandbox === "off") return undefined
  const { findTaskUser } = await import("./executors/process/task-user.ts")
  const { defaultCacheFolder } = await import("./executors/process/native.ts")
  const { processes, memoryBytes, files } = config.taskLimits
  const dataDir = realpathSync(config.dataDir)
  const hasUser = service || config.taskUser !== ""
  // The data folder itself is hidden, and Ork gives its place another mode.
  const needed = [realpathSync(folder ?? dataDir), realpathSync(process.execPath), import.meta.filename]
  const choice = hasUser ? findTaskUser(config.taskUser, needed) : ({ user: null, reason: null } as const)
  return {
    required: config.sandbox === "required",
    dataDir,
    hide:
      folder === null || (!service && isInside(process.cwd(), folder))
        ? []
        : privatePaths(config, realpathSync(folder), service),
    close: [USER_SOCKETS, ...(process.geteuid?.() === 0 ? SYSTEM_SOCKETS : [])],
    fix: existing([defaultCacheFolder(), CONFIG_FILE, ...privilegedFolders(config, served ?? null)]),
    user: choice.user,
    noUser: "reason" in choice ? choice.reason : null,
    limits: { processes, memory: memoryBytes ?? totalmem(), files },
    readable,
  }
}

const CONFIG_FILE = "ork.yaml"
/** Contains the sockets of each user's systemd, D-Bus and container engine. */
const USER_SOCKETS = "/run/user"
/** Sockets through which root starts services. */
const SYSTEM_SOCKETS = ["/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/io.systemd.Manager"]

/**
 * Returns the data folder, and outside of it the database, the object store and the secrets. Tasks of a service do not see its settings
 * either, which may contain keys.
 */
const privatePaths = (config: Config, folder: string, service: boolean): string[] => {
  const { objectStore, secretsDir, tlsKey } = config
  const objects = parseObjectAddress(objectStore)
  const database = sqliteFile(config)
  const files = database === null ? [] : [database, `${database}-wal`, `${database}-shm`]
  const secret = [secretsDir, tlsKey, ...(service ? [CONFIG_FILE] : [])].filter((path) => path !== "")
  const outside = existing([...files, ...(objects?.kind === "file" ? [objects.folder] : []), ...secret])
  return [folder, ...outside.filter((path) => !isInside(path, folder) && !isInside(process.cwd(), path))]
}

/** Returns the served folder if the policy gives its workflows rights that others do not have. */
const privilegedFolders = ({ policy }: Config, served: string | null): string[] =>
  served !== null && policy?.rules.some(({ folders }) => folders !== undefined) === true ? [served] : []

const existing = (paths: string[]): string[] => paths.filter((path) => existsSync(path)).map((path) => realpathSync(path))

const isInside = (path: string, folder: string): boolean => {
  const from = relative(resolve(folder), resolve(path))
  return from === "" || !(from === ".." || from.startsWith("../"))
}

/**
 * Returns the lease of the tasks of a process. Where other servers may run the tasks of a process whose lease has expired, its own
 * tasks end with the lease.
 */
const leaseOf = (config: Config): { leaseMs?: number } =>
  sqliteFile(config) === null ? { leaseMs: silenceMs(config.serverLeaseMs) } : {}

const helperChoice = (config: EngineConfig): HelperChoice => ({
  helper: "auto",
  ...leaseOf(config),
  ...(config.confinement !== undefined && { sandbox: config.confinement }),
})

const createProcessExecutor = async (config: EngineConfig, objects: ObjectStore): Promise<ProcessExecutor> => {
  const { ProcessExecutor } = await import("./executors/process/process.ts")
  return new ProcessExecutor({ objects, clock: systemClock, dataDir: config.dataDir, ...helperChoice(config) })
}

const loadHttp: ExecutorLoader = async ({ httpAllow: allow }, objects) => {
  const { HttpExecutor } = await import("./executors/http/http.ts")
  return new HttpExecutor({ objects, clock: systemClock, allow })
}

const loadNode: ExecutorLoader = async (config, objects) => {
  const { nodeRuntime } = await import("./executors/node/runtime.ts")
  return createPoolExecutor(nodeRuntime, config, objects)
}

const loadPython: ExecutorLoader = async (config, objects) => {
  const { pythonRuntime } = await import("./executors/python/runtime.ts")
  const { Pythons } = await import("./executors/interpreter/pythons.ts")
  return createPoolExecutor(pythonRuntime, config, objects, new Pythons(config.dataDir, objects))
}

/** Function workers per core that are started in advance, so that each has a next task while the engine commits. */
const EAGER_WORKERS_PER_CORE = 4

const createPoolExecutor = async (
  runtime: Runtime,
  config: EngineConfig,
  objects: ObjectStore,
  pythons?: Pythons,
): Promise<Executor> => {
  const { PoolExecutor } = await import("./executors/pool/pool-executor.ts")
  return new PoolExecutor({
    runtime,
    objects,
    clock: systemClock,
    ...helperChoice(config),
    maxWorkers: config.maxConcurrency,
    eagerWorkers: EAGER_WORKERS_PER_CORE * availableParallelism(),
    maxTasks: config.functionTasks,
    idleMs: config.functionIdleMs,
    ...(pythons !== undefined && { pythons }),
  })
}

const loadDocker: ExecutorLoader = async ({ dataDir, log: level }, objects) => {
  const { DockerExecutor } = await import("./executors/docker/docker.ts")
  const { createLog } = await import("./server/log.ts")
  const log = createLog(process.stderr, level).child({ part: "docker" })
  return new DockerExecutor({ objects, clock: systemClock, dataDir, log, env: process.env })
}

const kubernetesFolder = ({ dataDir }: Config): string => join(dataDir, "kubernetes")

const loadKubernetes: ExecutorLoader = async (config, objects) => {
  const { KubernetesExecutor } = await import("./executors/kubernetes/kubernetes.ts").catch(
    explainMissing("the executor kubernetes"),
  )
  const { createLog } = await import("./server/log.ts")
  const log = createLog(process.stderr, config.log).child({ part: "kubernetes" })
  const { kubeconfig, kubernetesNamespace: namespace, kubernetesTtlMs: ttlMs, objectStore: store } = config
  const folder = kubernetesFolder(config)
  return new KubernetesExecutor({
    objects,
    store,
    clock: systemClock,
    log,
    kubeconfig,
    namespace,
    ttlMs,
    folder,
    env: process.env,
  })
}

const loadSlurm: ExecutorLoader = async ({ slurmDir: folder, slurmCommand: command }, objects) => {
  const { SlurmExecutor } = await import("./executors/slurm/slurm.ts")
  return new SlurmExecutor({ objects, clock: systemClock, folder, command, env: process.env })
}

const cloudRunFolder = ({ dataDir }: Config): string => join(dataDir, "cloudrun")

const loadCloudRun: ExecutorLoader = async (config, objects) => {
  const { CloudRunExecutor } = await import("./executors/cloudrun/cloudrun.ts").catch(explainMissing("the executor cloudrun"))
  const { cloudrunProject: project, cloudrunRegion: region, objectStore: store } = config
  const { cloudrunEndpoint: endpoint, cloudrunLoggingEndpoint: loggingEndpoint } = config
  const folder = cloudRunFolder(config)
  return new CloudRunExecutor({ objects, store, clock: systemClock, project, region, endpoint, loggingEndpoint, folder })
}

/** Creates all executors. Except for `process`, each is loaded with its first task. */
const createExecutors = async (config: EngineConfig, objects: ObjectStore): Promise<Map<string, Executor>> => {
  const { LazyExecutor } = await import("./executors/lazy.ts")
  const lazy = (
    name: string,
    loader: ExecutorLoader,
    options: Pick<LazyOptions, "remote" | "needsCleanup" | "needsSweep"> = {},
  ): Executor => new LazyExecutor({ name, clock: systemClock, load: () => loader(config, objects), ...options })
  const executors = [
    await createProcessExecutor(config, objects),
    lazy("http", loadHttp),
    lazy("node", loadNode),
    lazy("python", loadPython),
    lazy("docker", loadDocker, { needsCleanup: () => existsSync(join(config.dataDir, "docker/owners")) }),
    lazy("kubernetes", loadKubernetes, { remote: true, needsSweep: () => existsSync(kubernetesFolder(config)) }),
    lazy("slurm", loadSlurm, { remote: true, needsSweep: () => existsSync(join(config.slurmDir, "attempts")) }),
    lazy("cloudrun", loadCloudRun, { remote: true, needsSweep: () => existsSync(cloudRunFolder(config)) }),
  ]
  return new Map(executors.map((executor) => [executor.name, executor]))
}

// -- the command -------------------------------------------------------------------------------------------------------------------

/** Returns a fetch under the policy of `http_allow`. Its library is loaded with the first request. */
const createFetch = ({ httpAllow }: Config): Fetch => {
  let loading: Promise<Fetch> | null = null
  const load = async (): Promise<Fetch> => {
    const { guardedFetch, httpPolicy } = await import("./executors/http/guarded-fetch.ts")
    const policy = httpPolicy({ allow: httpAllow })
    return (url, init) => guardedFetch(url, { redirects: 0, ...init }, policy)
  }
  return async (url, init) => await (await (loading ??= load()))(url, init)
}

const openBucket: Backends["openBucket"] = async (config, address) => {
  const { checkEndpoint } = await import("./executors/wait/bucket-endpoint.ts")
  checkEndpoint(address, config)
  return openObjects({ objectStore: address })
}

const createConditions = async (config: Config, secret: SecretSource): Promise<ConditionProbes> => {
  const { SystemConditions } = await import("./executors/wait/conditions.ts")
  const { httpAllow: allow, connections, maxOutputBytes } = config
  const dataDir = resolve(config.dataDir)
  const open = (address: string): Promise<ObjectStore> => openBucket(config, address)
  return new SystemConditions({ allow, connections, maxOutputBytes, secret, openObjects: open, dataDir })
}

const inspect = async (config: Config): Promise<Inspection> => {
  const { runProbes } = await import("./executors/probes.ts")
  const { kubeconfig, slurmCommand } = config
  const tools = await runProbes({ env: process.env, kubeconfig, slurmCommand, clock: systemClock })
  const facts = { sqlite: `version ${await sqliteVersion()}`, tools }
  const folder = resolve(config.dataDir)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  let executor: ProcessExecutor | null = null
  try {
    const sandbox = config.sandbox === "off" ? "off" : "auto"
    const confinement = await confinementOf({ ...config, sandbox }, { folder, service: true })
    executor = await createProcessExecutor({ ...config, confinement }, await openObjects(config))
    return { ...facts, spawn: await executor.describe() }
  } catch (error) {
    return { ...facts, spawn: { problem: messageOf(error) } }
  } finally {
    await executor?.stop()
  }
}

const sqliteVersion = async (): Promise<string> => {
  const { DatabaseSync } = await import("node:sqlite")
  const database = new DatabaseSync(":memory:")
  const { version } = database.prepare("SELECT sqlite_version() AS version").get() as { version: string }
  database.close()
  return version
}

const openSecretsOf: Backends["openSecrets"] = async (config, where) => {
  const { openSecrets } = await import("./secrets/open.ts")
  return openSecrets(config, { ...where, clock: systemClock })
}

const backends: Backends = {
  clock: systemClock,
  random: systemRandom,
  openStore,
  openObjects,
  openBucket,
  openSecrets: openSecretsOf,
  async engineParts(config, objects, use) {
    const { tightenDataFolder } = await import("./objects/data-folder.ts")
    for (const folder of new Set([use.folder ?? config.dataDir, config.dataDir])) tightenDataFolder(folder)
    const confinement = await confinementOf(config, use)
    const { createEvaluator } = await import("./engine/gate/evaluator.ts")
    const secrets = await openSecretsOf(config, { env: process.env, cwd: process.cwd() })
    const executors = await createExecutors({ ...config, confinement }, objects)
    return {
      executors,
      protections: async () => (await (executors.get("process") as ProcessExecutor).describe()).protections,
      evaluator: createEvaluator(),
      secret: (name) => secrets.find(name),
      fetch: createFetch(config),
      conditions: await createConditions(config, (name) => secrets.find(name)),
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
  inspect,
}

/** The environment of the command in this process. */
const context: Context = {
  backends,
  env: process.env,
  cwd: process.cwd(),
  version: orkVersion,
  stdin: () => process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
}

export { context }
