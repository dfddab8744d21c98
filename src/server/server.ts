// A whole server out of its parts: engine, scheduler, API, and what goes on beside them. Takes backends by contract; `ork serve`
// hands them in, says when to stop, and tells people where to go.

import { hostname } from "node:os"
import { dirname, resolve } from "node:path"
import type { Logger } from "pino"
import { FolderDeploys } from "./folder-deploys.ts"
import { Housekeeping } from "./housekeeping.ts"
import { Metrics } from "./metrics.ts"
import { PushExecutor } from "./push-executor.ts"
import { DiskUsage } from "./disk-usage.ts"
import { Series } from "./activity.ts"
import { type Step, takeSteps } from "./shutdown-steps.ts"
import { refuseSecond } from "./sole-server.ts"
import { startTracing } from "./tracing.ts"
import { buildServer, close, listen } from "../api/http/server.ts"
import { type Config, withoutPassword } from "../config.ts"
import type { Clock, Fetch, Random } from "../core/model/ports.ts"
import { lanesOf, type WorkerCapabilities } from "../core/routing/capabilities.ts"
import { Engine } from "../engine/engine.ts"
import { explain, holderIsAlive } from "../engine/services/explain.ts"
import { Notifier } from "../engine/services/notifier.ts"
import type { EngineOptions, Observer } from "../engine/ports.ts"
import { Scheduler } from "../engine/services/scheduler.ts"
import { createServices } from "../engine/services/services.ts"
import { WorkerService } from "../engine/workers/worker-service.ts"
import type { ObjectStore } from "../objects/objects.ts"
import { Conflict } from "../store/contract/errors.ts"
import type { ServerStore } from "../store/contract/server-store.ts"

/** The web page's build lies in dist/ui, whether this file runs from src/ or from dist/. */
const PAGE_DIR = resolve(import.meta.dirname, "../../dist/ui")

/** For a part of the end that has tasks or answers under way, beyond their grace. */
const STEP_MS = 5000

export interface ServerParts extends Pick<EngineOptions, "executors" | "evaluator" | "secret"> {
  config: Config
  store: ServerStore
  objects: ObjectStore
  clock: Clock
  random: Random
  log: Logger
  version: string
  apiKey: string
  /** How this process is known to others, and whether the one so described still lives. */
  identity: string
  alive(identity: string): boolean
  env: { [name: string]: string | undefined }
  fetch: Fetch
  /** Queues that it takes work from: all of them, or these. */
  queues: "all" | readonly string[]
  /** Queues whose jobs its handlers run. */
  handlers?: readonly string[]
  /** Names of the functions that it has registered. */
  functions?: readonly string[]
  /** A folder of definitions to deploy and follow. */
  folder: string | null
}

export interface RunningServer {
  /** Where it answers: `http://127.0.0.1:4000`. */
  address: string
  /** Signs a browser in, once, within an hour. */
  signInLink(): string
  /** Takes nothing new, gives what runs the grace to end, hands the rest back, ends streams. */
  stop(): Promise<void>
}

export const startServer = async (parts: ServerParts): Promise<RunningServer> => {
  const { config, store, objects, clock, random, log, evaluator, identity } = parts
  const sole = { store, identity, alive: parts.alive, where: withoutPassword(config.databaseUrl) }
  await refuseSecond(sole)
  for (const [name, settings] of Object.entries(config.queues)) await store.putQueue(name, settings)
  const metrics = new Metrics(store, parts.version)
  const series = new Series(store, clock)
  const usage = new DiskUsage(objects.localPath === undefined ? null : dirname(objects.localPath("runs")), clock)
  const tracing = await startTracing(parts.env, { store, log, version: parts.version })
  const dataDir = resolve(config.dataDir)
  const { queues } = parts
  const serves: WorkerCapabilities = {
    queues,
    labels: queues === "all" ? "all" : [],
    handlers: parts.handlers ?? [],
    functions: parts.functions ?? [],
    capacity: config.concurrency,
    version: parts.version,
  }
  let address = ""
  const push =
    config.workers.length === 0
      ? null
      : new PushExecutor({
          workers: config.workers,
          apiKey: parts.apiKey,
          callback: () => ownAddress(config.host, address),
          objects,
          clock,
          random,
          fetch,
          ...leaseOf(parts.env),
        })
  const counted = both(metrics.observer, series.observer)
  const observed = tracing === null ? counted : both(counted, tracing.observer)
  const engineParts: EngineOptions = {
    store,
    objects,
    executors: push === null ? parts.executors : new Map([...parts.executors, [push.name, push]]),
    evaluator,
    clock,
    random,
    log: log.child({ part: "engine" }),
    holder: { kind: "server", name: `${hostname()}:${process.pid}`, process: identity, capabilities: serves },
    privateRun: null,
    lanes: lanesOf(serves),
    concurrency: config.concurrency,
    remoteConcurrency: config.remoteConcurrency,
    maxFanout: config.maxFanout,
    maxOutputBytes: config.maxOutputBytes,
    graceMs: config.graceMs,
    dataDir,
    secret: parts.secret,
    fetch: parts.fetch,
    address: () => config.url || address,
    async findWorkflow(name) {
      const found = await store.getWorkflow(name)
      return found === null ? null : { workflowId: found.id, versionId: found.versionId }
    },
    observer: both(observed, { turn: () => desk.wake(), cancelled: () => desk.wake(true) }),
  }
  const engine = new Engine(engineParts)
  const desk = new WorkerService({ engine, parts: engineParts, ...leaseOf(parts.env) })
  engine.onEvent(metrics.event)
  if (tracing !== null) engine.onEvent((event) => tracing.event(event))
  const notifier = new Notifier({ store, clock, log: log.child({ part: "notices" }), secret: parts.secret, fetch: parts.fetch })
  engine.onEvent((event) => {
    if (event.type === "run") notifier.wake()
  })
  const scheduler = new Scheduler({
    store,
    evaluator,
    clock,
    random,
    log: log.child({ part: "schedules" }),
    cancel: (runId) => engine.cancel(runId).catch(unlessEnded),
    wake: () => {
      engine.wake()
      // Runs may have a deadline.
      notifier.wake()
    },
  })
  const wake = (): void => {
    engine.wake()
    desk.wake(true)
    scheduler.wake()
    notifier.wake()
  }
  const services = createServices({ ...engineParts, engine, store, wake })
  const { workerProfiles: profiles } = config
  const api = buildServer({
    engine,
    store,
    objects,
    log,
    clock,
    random,
    secret: parts.secret,
    services,
    config: { apiKey: parts.apiKey, version: parts.version, webUiDir: PAGE_DIR, profiles },
    explain: (runId, task) => explain({ store, isAlive: holderIsAlive(store, () => clock.now(), parts.alive) }, runId, task),
    metrics: metrics.text,
    serverStats: {
      columns: () => series.columns(),
      endedPerMinute: (queue) => series.endedPerMinute(queue),
      objectsBytes: () => usage.bytes(),
    },
    workers: desk,
    ...(push !== null && { push: (result) => push.result(result) }),
  })
  metrics.watch(api.app)
  const housekeeping = new Housekeeping({ ...config, store, objects, dataDir, clock, log })
  const folder =
    parts.folder === null
      ? null
      : new FolderDeploys({ folder: parts.folder, workflows: services.workflows, profiles, clock, log })

  const closeApi: Step = {
    part: "answers",
    end: () => close(api),
    withinMs: config.graceMs + STEP_MS,
    force: () => api.app.server.closeAllConnections(),
  }
  const stopEngine: Step = {
    part: "the engine",
    end: () => engine.stop({ patienceMs: config.graceMs }),
    withinMs: 2 * config.graceMs + 4 * STEP_MS,
  }
  const steps: Step[] = [
    { part: "the followed folder", end: () => folder?.stop() },
    { part: "schedules", end: () => scheduler.stop() },
    { part: "housekeeping", end: () => housekeeping.stop() },
    { part: "polls", end: () => desk.stop() },
    // Workers that are pushed to tell their results while the engine ends.
    ...(push === null ? [closeApi, stopEngine] : [stopEngine, closeApi]),
    { part: "notices", end: () => notifier.stop() },
    { part: "traces", end: () => tracing?.stop() },
    { part: "figures", end: () => (metrics.stop(), series.stop()) },
  ]
  const stopRest = (): Promise<void> => takeSteps(steps, { clock, log })
  try {
    await engine.start()
    await refuseSecond(sole)
    await desk.start()
    await folder?.start()
    address = await listen(api, { host: config.host, port: config.port })
    scheduler.start()
    notifier.start()
    housekeeping.start()
    return {
      address,
      signInLink: () => `${address}/ui/sign-in?token=${api.signInToken()}`,
      stop: stopRest,
    }
  } catch (error) {
    await stopRest()
    throw error
  }
}

/** Where others reach this very server, not one of its siblings: one that listens everywhere goes by the machine's name. */
const ownAddress = (host: string, address: string): string =>
  host === "0.0.0.0" || host === "::" ? `http://${hostname()}:${new URL(address).port}` : address

/** Shorter leases of workers, for tests of what happens when they run out. */
const leaseOf = (env: ServerParts["env"]): { leaseMs?: number } => {
  const leaseMs = Number(env["ORK_TEST_WORKER_LEASE_MS"])
  return leaseMs > 0 ? { leaseMs } : {}
}

const both = (a: Observer, b: Observer): Observer => ({
  turn: (batch) => {
    a.turn?.(batch)
    b.turn?.(batch)
  },
  environment: (claim) => ({ ...a.environment?.(claim), ...b.environment?.(claim) }),
  attemptEnded: (...args) => {
    a.attemptEnded?.(...args)
    b.attemptEnded?.(...args)
  },
  cancelled: () => {
    a.cancelled?.()
    b.cancelled?.()
  },
})

/** A run that ended in this very moment needs no cancel. */
const unlessEnded = (error: unknown): void => {
  if (!(error instanceof Conflict)) throw error
}
