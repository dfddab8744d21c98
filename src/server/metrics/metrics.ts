// Metrics of a server for Prometheus. Frequent events are counted as they happen; queues and workflows are read from the store on each
// scrape. Label values are bounded: executors, states, routes, and a fixed number of queues and workflows.

import { monitorEventLoopDelay } from "node:perf_hooks"
import type { FastifyInstance } from "fastify"
import { Counter, Gauge, Histogram, Registry } from "prom-client"
import { isFirstOfRun } from "../../engine/attempts/claims.ts"
import type { Observer } from "../../engine/ports.ts"
import type { QueueRow, QueueStore } from "../../store/contract/queues.ts"
import { WorkflowMetrics, type WorkflowMetricsStore } from "./workflow-metrics.ts"
import type { StoreEvent } from "../../store/contract/store.ts"

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200]
const ROWS = [0, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1000]
const MAX_QUEUES = 100
const LAG_RESOLUTION_MS = 100
const LAG_QUANTILES = [
  [50, "0.5"],
  [99, "0.99"],
  [100, "1"],
] as const

export interface MetricDescription {
  name: string
  type: string
  help: string
  labels: readonly string[]
}

export class Metrics {
  readonly #registry = new Registry()
  readonly #queues: Pick<QueueStore, "listQueues">
  readonly #workflows: WorkflowMetrics
  readonly #lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS })
  readonly #ready = this.#gauge("ork_queue_ready", "Tasks and jobs that are ready to start", ["queue"])
  readonly #running = this.#gauge("ork_queue_running", "Tasks and jobs that are running", ["queue"])
  readonly #oldest = this.#gauge("ork_queue_oldest_ready_seconds", "Age of the oldest ready task or job; 0 without one", [
    "queue",
  ])
  readonly #loopLag = this.#gauge("ork_loop_lag_seconds", "Delay of timers of this process since the last scrape", ["quantile"])
  readonly #memory = this.#gauge("ork_process_resident_bytes", "Resident memory of this process", [])
  readonly #cpu = this.#gauge("ork_process_cpu_seconds", "CPU time of this process", [])
  readonly #dispatch = this.#histogram(
    "ork_dispatch_seconds",
    "From a run's creation to the start of its first tasks",
    [],
    SECONDS,
  )
  readonly #task = this.#histogram("ork_task_seconds", "Duration of attempts", ["executor", "state"], SECONDS)
  readonly #runs = this.#counter("ork_runs_total", "Runs that reached a status on this server", ["status"])
  readonly #events = this.#counter("ork_events_total", "Events that this server committed", ["type"])
  readonly #advance = this.#histogram("ork_advance_seconds", "Duration of a commit of the loop", [], SECONDS)
  readonly #changes = this.#histogram("ork_advance_changes", "Changes per commit of the loop", [], ROWS)
  readonly #http = this.#histogram("ork_http_request_seconds", "Duration of requests", ["method", "route", "status"], SECONDS)

  constructor(store: Pick<QueueStore, "listQueues"> & WorkflowMetricsStore, version: string) {
    this.#queues = store
    this.#workflows = new WorkflowMetrics(store, this.#registry)
    this.#gauge("ork_info", "Version of the server", ["version"]).set({ version }, 1)
    this.#lag.enable()
  }

  readonly observer: Observer = {
    turn: ({ changes, ms }) => {
      this.#advance.observe(ms / 1000)
      this.#changes.observe(changes)
    },
    attemptEnded: (claim, node, { state, startedAt, finishedAt }) => {
      if (startedAt === null) return
      this.#task.observe({ executor: node.executor, state }, Math.max(0, finishedAt - startedAt) / 1000)
      if (isFirstOfRun(claim, node)) this.#dispatch.observe(Math.max(0, startedAt - Date.parse(claim.run.createdAt)) / 1000)
    },
  }

  readonly event = ({ type, status }: StoreEvent): void => {
    this.#events.inc({ type })
    if (type === "run") this.#runs.inc({ status })
  }

  /** Counts the runs of workflows from now on. */
  async start(): Promise<void> {
    await this.#workflows.start()
  }

  /** Measures requests. Called before the API listens. */
  watch(app: FastifyInstance): void {
    app.addHook("onResponse", (request, reply, done) => {
      const { method, routeOptions } = request
      // The duration of a stream depends on its reader.
      if (reply.getHeader("content-type") !== "text/event-stream") {
        const labels = { method, route: routeOptions.url ?? "other", status: `${Math.floor(reply.statusCode / 100)}xx` }
        this.#http.observe(labels, reply.elapsedTime / 1000)
      }
      done()
    })
  }

  /** Returns the metrics in the text format of Prometheus. */
  readonly text = async (): Promise<string> => {
    this.#setQueues(await this.#queues.listQueues())
    await this.#workflows.update()
    for (const [percent, quantile] of LAG_QUANTILES) {
      const late = this.#lag.percentile(percent) / 1e9 - LAG_RESOLUTION_MS / 1000
      this.#loopLag.set({ quantile }, Number.isFinite(late) ? Math.max(0, late) : 0)
    }
    this.#lag.reset()
    this.#memory.set(process.memoryUsage.rss())
    const { user, system } = process.cpuUsage()
    this.#cpu.set((user + system) / 1e6)
    return await this.#registry.metrics()
  }

  /** Describes the metrics, for the reference. */
  list(): MetricDescription[] {
    const metrics = this.#registry.getMetricsAsArray() as unknown as (MetricDescription & { labelNames: string[] })[]
    return metrics.map(({ name, type, help, labelNames }) => ({ name, type, help, labels: labelNames }))
  }

  stop(): void {
    this.#lag.disable()
  }

  #setQueues(queues: readonly QueueRow[]): void {
    for (const gauge of [this.#ready, this.#running, this.#oldest]) gauge.reset()
    for (const [i, { name, ready, running, oldestReadyMs }] of queues.entries()) {
      const labels = { queue: i < MAX_QUEUES ? name : "other" }
      this.#ready.inc(labels, ready)
      this.#running.inc(labels, running)
      const age = (oldestReadyMs ?? 0) / 1000
      if (i < MAX_QUEUES) this.#oldest.set(labels, age)
    }
  }

  #gauge<L extends string>(name: string, help: string, labelNames: readonly L[]): Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: [this.#registry] })
  }

  #counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] })
  }

  #histogram<L extends string>(name: string, help: string, labelNames: readonly L[], buckets: number[]): Histogram<L> {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.#registry] })
  }
}
