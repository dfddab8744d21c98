// A server: engine, scheduler, notifier, API, worker service and housekeeping in one process. Uses backends by their contracts; `ork serve`
// passes them in and decides when to stop.

import { hostname } from "node:os"
import { dirname, resolve } from "node:path"
import type { Logger } from "pino"
import { Activity } from "./metrics/activity.ts"
import { processName } from "../engine/system.ts"
import { fullDiskProblem } from "./disk-space.ts"
import { DiskUsage } from "./disk-usage.ts"
import { FolderDeployer } from "./folder-deployer.ts"
import { Housekeeping } from "../engine/services/housekeeping.ts"
import { SmtpMailer } from "./mailer.ts"
import { Metrics } from "./metrics/metrics.ts"
import { objectStoreProblem } from "./object-store-problem.ts"
import { PushExecutor } from "./push/push-executor.ts"
import { runShutdownSteps, type ShutdownStep } from "./shutdown-steps.ts"
import type { Tls } from "./listening.ts"
import { rejectSecondServer } from "./sole-server.ts"
import { startTracing, type Tracing } from "./metrics/tracing.ts"
import { buildServer, close, listen } from "../api/http/server.ts"
import { type Config, withoutPassword } from "../config.ts"
import type { Clock, Fetch, Random } from "../core/model/ports.ts"
import { DEFAULT_POLICY, type Policy } from "../core/settings/policy.ts"
import { lanesOf, type WorkerCapabilities } from "../core/routing/capabilities.ts"
import { pushKeyOf } from "../protocol/wire/server-proof.ts"
import { Engine } from "../engine/engine.ts"
import { concurrencyOf } from "../engine/adaptive-limit.ts"
import type { EngineOptions, Observer } from "../engine/ports.ts"
import { explain, explainJob, holderIsAlive } from "../engine/services/explain.ts"
import { DefinitionThread } from "../engine/services/definition-thread.ts"
import { Notifier } from "../engine/services/notifier.ts"
import { Scheduler } from "../engine/services/scheduler.ts"
import { PathTriggers } from "../engine/services/path-triggers.ts"
import { Triggers } from "../engine/services/triggers.ts"
import { createServices, type Services } from "../engine/services/services.ts"
import { WorkerService } from "../engine/workers/worker-service.ts"
import { MatchFinder } from "../objects/matches/matches.ts"
import type { ObjectStore } from "../objects/objects.ts"
import { Conflict } from "../store/contract/errors.ts"
import type { ServerStore } from "../store/contract/server-store.ts"

/** The build of the web UI is in dist/ui, whether this file runs from src/ or from dist/. */
const WEB_UI_DIR = resolve(import.meta.dirname, "../../dist/ui")

/** Time for a step of the shutdown, beyond the grace of tasks or requests. */
const STEP_MS = 5000

export interface ServerOptions extends Pick<EngineOptions, "executors" | "evaluator" | "secret" | "conditions"> {
  config: Config
  store: ServerStore
  objects: ObjectStore
  /** Opens another object store by its address, for triggers on its objects. */
  openObjects(address: string): Promise<ObjectStore>
  clock: Clock
  random: Random
  log: Logger
  version: string
  apiKey: string
  /** The key in the data folder, if the server uses that one. */
  folderKey?: string
  /** Identity of this process, as `isAlive` of other processes reads it. */
  identity: string
  isAlive(identity: string): boolean
  env: { [name: string]: string | undefined }
  fetch: Fetch
  /** Queues to claim work from. */
  queues: "all" | readonly string[]
  /** Labels of this server: it claims tasks whose labels it has. */
  labels?: readonly string[]
  /** Queues whose jobs the registered handlers run. */
  handlers?: readonly string[]
  /** Names of the registered functions. */
  functions?: readonly string[]
  /** Folder of definitions to deploy and watch. */
  folder: string | null
  /** null: plain HTTP. */
  tls: Tls | null
}

export interface RunningServer {
  /** Address of the API, such as `http://127.0.0.1:4000`. */
  address: string
  /** Returns a link that signs a browser in, once, within an hour. */
  signInLink(): string
  /** Claims nothing new, gives running attempts their grace, releases the others and closes streams. */
  stop(): Promise<void>
}

export const startServer = async (options: ServerOptions): Promise<RunningServer> => {
  const { config, store, log, version, env } = options
  await rejectSecondServer({ store, database: withoutPassword(config.databaseUrl) })
  for (const [name, settings] of Object.entries(config.queues)) await store.putQueue(name, settings)
  const server = new Server(options, await startTracing(env, { store, log, version }))
  try {
    return await server.start()
  } catch (error) {
    await server.stop()
    throw error
  }
}

class Server {
  readonly #options: ServerOptions
  readonly #tracing: Tracing | null
  readonly #metrics: Metrics
  readonly #activity: Activity
  readonly #push: PushExecutor | null
  readonly #engine: Engine
  readonly #workers: WorkerService
  readonly #notifier: Notifier
  readonly #scheduler: Scheduler
  readonly #triggers: Triggers
  readonly #pathTriggers: PathTriggers
  readonly #services: Services
  readonly #api: ReturnType<typeof buildServer>
  readonly #housekeeping: Housekeeping
  readonly #folder: FolderDeployer | null
  readonly #definitions = new DefinitionThread()
  /** Empty until the API listens. */
  #address = ""

  constructor(options: ServerOptions, tracing: Tracing | null) {
    const { store, clock, version } = options
    this.#options = options
    this.#tracing = tracing
    this.#metrics = new Metrics(store, version)
    this.#activity = new Activity(store, clock)
    this.#push = this.#createPushExecutor()
    const engineOptions = this.#engineOptions()
    this.#engine = new Engine(engineOptions)
    this.#workers = new WorkerService({ engine: this.#engine, parts: engineOptions, leaseMs: options.config.workerLeaseMs })
    this.#notifier = this.#createNotifier()
    this.#scheduler = this.#createScheduler()
    this.#triggers = this.#createTriggers()
    this.#pathTriggers = this.#createPathTriggers()
    this.#services = createServices({
      ...engineOptions,
      engine: this.#engine,
      definitions: this.#definitions,
      store,
      wake: () => this.#wakeAll(),
    })
    this.#api = this.#createApi()
    this.#housekeeping = this.#createHousekeeping()
    this.#folder = this.#createFolderDeployer()
    this.#connectEvents()
  }

  async start(): Promise<RunningServer> {
    const { config } = this.#options
    await this.#metrics.start()
    await this.#engine.start()
    await this.#workers.start()
    await this.#folder?.start()
    this.#address = await listen(this.#api, { host: config.host, port: config.port })
    this.#scheduler.start()
    this.#triggers.start()
    this.#pathTriggers.start()
    this.#notifier.start()
    this.#housekeeping.start()
    return {
      address: this.#address,
      signInLink: () => `${this.#address}/ui/sign-in?token=${this.#api.signInToken()}`,
      stop: () => this.stop(),
    }
  }

  /** Stops the server, also after a failed start. */
  async stop(): Promise<void> {
    const { config, clock, log } = this.#options
    const closeApi: ShutdownStep = {
      part: "API",
      stop: () => close(this.#api),
      timeoutMs: config.graceMs + STEP_MS,
      force: () => this.#api.app.server.closeAllConnections(),
    }
    const stopEngine: ShutdownStep = {
      part: "engine",
      stop: () => this.#engine.stop({ drainMs: config.graceMs }),
      timeoutMs: 2 * config.graceMs + 4 * STEP_MS,
    }
    const steps: ShutdownStep[] = [
      { part: "folder deployer", stop: () => this.#folder?.stop() },
      { part: "scheduler", stop: () => this.#scheduler.stop() },
      { part: "triggers", stop: () => this.#triggers.stop() },
      { part: "path triggers", stop: () => this.#pathTriggers.stop() },
      { part: "housekeeping", stop: () => this.#housekeeping.stop() },
      { part: "worker service", stop: () => this.#workers.stop() },
      // Push workers report results through the API while the engine stops.
      ...(this.#push === null ? [closeApi, stopEngine] : [stopEngine, closeApi]),
      { part: "definitions", stop: () => this.#definitions.stop() },
      { part: "notifier", stop: () => this.#notifier.stop() },
      { part: "tracing", stop: () => this.#tracing?.stop() },
      { part: "metrics", stop: () => this.#metrics.stop() },
      { part: "activity", stop: () => this.#activity.stop() },
    ]
    await runShutdownSteps(steps, { clock, log })
  }

  // -- parts -----------------------------------------------------------------------------------------------------------------------

  #createPushExecutor(): PushExecutor | null {
    const { config, apiKey, objects, clock, random } = this.#options
    const { workers, workerLeaseMs: leaseMs } = config
    if (workers.length === 0) return null
    const callback = (): string => ownAddress(config.host, this.#address)
    const key = config.pushKey || pushKeyOf(apiKey)
    return new PushExecutor({ workers, key, callback, objects, clock, random, fetch, leaseMs })
  }

  #engineOptions(): EngineOptions {
    const { config, store, objects, executors, evaluator, clock, random, log, identity, secret, fetch, conditions } =
      this.#options
    const capabilities = this.#capabilities()
    return {
      store,
      objects,
      executors: this.#push === null ? executors : new Map([...executors, [this.#push.name, this.#push]]),
      evaluator,
      clock,
      random,
      log: log.child({ part: "engine" }),
      holder: { kind: "server", name: processName(), process: identity, capabilities },
      lanes: lanesOf(capabilities),
      ...concurrencyOf(config, clock),
      remoteConcurrency: config.remoteConcurrency,
      maxFanout: config.maxFanout,
      maxOutputBytes: config.maxOutputBytes,
      maxArtifactBytes: config.maxArtifactBytes,
      maxLogBytes: config.maxLogBytes,
      graceMs: config.graceMs,
      leaseMs: config.serverLeaseMs,
      dataDir: resolve(config.dataDir),
      secret,
      policy: policyOf(config),
      fetch,
      ...(conditions !== undefined && { conditions }),
      address: () => config.url || this.#address,
      async findWorkflow(name) {
        const found = await store.getWorkflow(name)
        return found === null ? null : { workflowId: found.id, versionId: found.versionId }
      },
      observer: this.#observer(),
    }
  }

  #capabilities(): WorkerCapabilities {
    const { config, queues, labels = [], handlers = [], functions = [], version } = this.#options
    return {
      queues,
      labels,
      handlers,
      functions,
      capacity: config.maxConcurrency,
      version,
    }
  }

  #observer(): Observer {
    const wakeWorkers: Observer = { turn: () => this.#workers.wake(), cancelled: () => this.#workers.wake(true) }
    return combineObservers([
      this.#metrics.observer,
      this.#activity.observer,
      ...(this.#tracing === null ? [] : [this.#tracing.observer]),
      wakeWorkers,
    ])
  }

  #createNotifier(): Notifier {
    const { store, clock, log, secret, fetch, evaluator, config } = this.#options
    const mailer = config.smtp === null ? null : new SmtpMailer(config.smtp, config.smtpFrom, secret)
    const address = (): string => config.url || this.#address
    return new Notifier({ store, clock, log: log.child({ part: "notifier" }), secret, fetch, evaluator, mailer, address })
  }

  #createScheduler(): Scheduler {
    const { store, evaluator, clock, random, log } = this.#options
    return new Scheduler({
      store,
      evaluator,
      clock,
      random,
      log: log.child({ part: "scheduler" }),
      cancel: (runId) => this.#engine.cancel(runId).catch(ignoreConflict),
      wake: () => this.#wakeForRuns(),
    })
  }

  #createTriggers(): Triggers {
    const { store, evaluator, clock, random, log } = this.#options
    const wake = (): void => this.#wakeForRuns()
    return new Triggers({ store, evaluator, clock, random, log: log.child({ part: "triggers" }), wake })
  }

  #createPathTriggers(): PathTriggers {
    const { store, evaluator, clock, random, log, config, openObjects } = this.#options
    const matches = new MatchFinder({ openObjects, dataDir: resolve(config.dataDir) })
    const wake = (): void => this.#wakeForRuns()
    return new PathTriggers({ store, matches, evaluator, clock, random, log: log.child({ part: "triggers" }), wake })
  }

  #createApi(): ReturnType<typeof buildServer> {
    const { config, store, objects, log, clock, random, secret, apiKey, folderKey, version, isAlive, tls } = this.#options
    const usage = new DiskUsage(objects.localPath === undefined ? null : dirname(objects.localPath("runs")), clock)
    const push = this.#push
    const isHolderAlive = holderIsAlive(store, () => clock.now(), isAlive)
    const failFast = objects.failFast ?? objects
    const serverProblem = async (): Promise<string | null> =>
      (await this.#problem()) ?? (await objectStoreProblem(failFast, clock))
    const explained = { store, isAlive: isHolderAlive, serverProblem }
    const api = buildServer({
      engine: this.#engine,
      store,
      objects: failFast,
      log,
      clock,
      random,
      secret,
      services: this.#services,
      config: {
        apiKey,
        ...(folderKey !== undefined && { folderKey }),
        version,
        webUiDir: WEB_UI_DIR,
        profiles: config.workerProfiles,
        policy: policyOf(config),
        trustProxy: config.trustProxy,
        hosts: [...config.allowedHosts, config.host],
        ...(config.url !== "" && { url: config.url }),
        ...(tls !== null && { tls }),
        ...(config.oidc !== null && { oidc: config.oidc }),
      },
      explain: (runId, task) => explain(explained, runId, task),
      explainJob: (job) => explainJob(explained, job),
      isHolderAlive,
      problem: () => this.#problem(),
      metrics: this.#metrics.text,
      serverStats: {
        columns: () => this.#activity.series(),
        endedPerMinute: (queue) => this.#activity.endedPerMinute(queue),
        objectsBytes: () => usage.bytes(),
      },
      workers: this.#workers,
      ...(push !== null && { push }),
    })
    this.#metrics.watch(api.app)
    return api
  }

  /** Returns why this server cannot work at present, or null. */
  async #problem(): Promise<string | null> {
    const fullDisk = await fullDiskProblem(resolve(this.#options.config.dataDir))
    return fullDisk ?? this.#engine.problem
  }

  #createHousekeeping(): Housekeeping {
    const { config, store, objects, clock, log } = this.#options
    const wake = (): void => this.#wakeForRuns()
    return new Housekeeping({ ...config, store, objects, dataDir: resolve(config.dataDir), clock, log, wake })
  }

  #createFolderDeployer(): FolderDeployer | null {
    const { config, folder, clock, log } = this.#options
    if (folder === null) return null
    const { workflows } = this.#services
    return new FolderDeployer({ folder, workflows, profiles: config.workerProfiles, policy: policyOf(config), clock, log })
  }

  #connectEvents(): void {
    this.#engine.onEvent(this.#metrics.event)
    const tracing = this.#tracing
    if (tracing !== null) this.#engine.onEvent((event) => tracing.event(event))
    this.#engine.onEvent((event) => {
      if (event.type === "task") this.#notifier.wakeLater()
      if (event.type !== "run") return
      this.#notifier.wake()
      if (event.status === "success") this.#triggers.wake()
    })
    this.#engine.onRecovered(() => {
      this.#notifier.wake()
      this.#triggers.wake()
    })
  }

  /** Wakes what has work for runs that a schedule or a trigger has created: they may have deadlines. */
  #wakeForRuns(): void {
    this.#engine.wake()
    this.#notifier.wake()
  }

  /** Wakes everything that may have work after a change through the API. */
  #wakeAll(): void {
    this.#engine.wake()
    this.#workers.wake(true)
    this.#scheduler.wake()
    this.#pathTriggers.wake()
    this.#notifier.wake()
  }
}

const policyOf = ({ policy }: Config): Policy => policy ?? DEFAULT_POLICY

/** Returns the address of this server, as opposed to a load balancer's. One that listens on all interfaces uses the host name. */
const ownAddress = (host: string, address: string): string =>
  host === "0.0.0.0" || host === "::" ? address.replace(/\/\/.*(:\d+)$/, `//${hostname()}$1`) : address

/** Throws errors other than a Conflict: a run that has ended meanwhile needs no cancel. */
const ignoreConflict = (error: unknown): void => {
  if (!(error instanceof Conflict)) throw error
}

/** Returns an observer that calls all of the given ones. */
const combineObservers = (observers: readonly Observer[]): Observer => ({
  turn: (batch) => {
    for (const observer of observers) observer.turn?.(batch)
  },
  environment: (claim) => Object.assign({}, ...observers.map((observer) => observer.environment?.(claim))) as Env,
  attemptEnded: (claim, node, result) => {
    for (const observer of observers) observer.attemptEnded?.(claim, node, result)
  },
  cancelled: () => {
    for (const observer of observers) observer.cancelled?.()
  },
})

type Env = ReturnType<NonNullable<Observer["environment"]>>
