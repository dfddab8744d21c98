// Metrics of each workflow. They are read from the store on each scrape, and count the runs of all servers since the start of this one.
// The first workflows by name have labels of their own; the others share `other`.

import { Counter, Gauge, Histogram, type Registry } from "prom-client"
import { iso } from "../../core/model/ports.ts"
import type { Catalog } from "../../store/contract/catalog.ts"
import type { FinishedRun, StatsStore } from "../../store/contract/stats.ts"
import type { Store } from "../../store/contract/store.ts"

export type WorkflowMetricsStore = Pick<StatsStore, "countActiveRuns" | "listFinishedRuns"> &
  Pick<Catalog, "listWorkflows" | "currentTime"> &
  Pick<Store, "listRuns">

const MAX_WORKFLOWS = 200
/** Runs that are read in one scrape; the others follow in the next one. */
const MAX_RUNS = 20_000
/** A run may be committed this long after the time of its end. */
const COMMIT_MS = 5000
const SECONDS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400]

export class WorkflowMetrics {
  readonly #store: WorkflowMetricsStore
  readonly #lastSuccess: Gauge<"workflow">
  readonly #active: Gauge<"workflow" | "status">
  readonly #finished: Counter<"workflow" | "status">
  readonly #duration: Histogram<"workflow" | "status">
  /** Time of the last success in milliseconds, by workflow; null: never. */
  readonly #successes = new Map<string, number | null>()
  /** Runs that finished until this instant are counted. */
  #countedUntil: string | null = null
  #updating: Promise<void> | null = null

  constructor(store: WorkflowMetricsStore, registry: Registry) {
    this.#store = store
    const registers = [registry]
    this.#lastSuccess = new Gauge({
      name: "ork_workflow_last_success_timestamp_seconds",
      help: "Time of the last success of a deployed workflow; absent when it has never succeeded",
      labelNames: ["workflow"],
      registers,
    })
    this.#active = new Gauge({
      name: "ork_workflow_active_runs",
      help: "Pending and running runs",
      labelNames: ["workflow", "status"],
      registers,
    })
    this.#finished = new Counter({
      name: "ork_workflow_runs_total",
      help: "Runs that finished on any server since the start of this one",
      labelNames: ["workflow", "status"],
      registers,
    })
    this.#duration = new Histogram({
      name: "ork_workflow_run_seconds",
      help: "Duration of runs that finished on any server since the start of this one",
      labelNames: ["workflow", "status"],
      buckets: SECONDS,
      registers,
    })
  }

  /** Counts runs that finish from now on. */
  async start(): Promise<void> {
    this.#countedUntil ??= iso((await this.#store.currentTime()) - COMMIT_MS)
  }

  /** Reads what has changed since the last call. Calls during a call share its result: no run is counted twice. */
  update(): Promise<void> {
    this.#updating ??= this.#update().finally(() => {
      this.#updating = null
    })
    return this.#updating
  }

  async #update(): Promise<void> {
    await this.start()
    const workflows = await this.#store.listWorkflows({ limit: MAX_WORKFLOWS, runs: 0 })
    const names = new Set(workflows.map(({ workflow }) => workflow.name))
    await this.#countFinished(names)
    await this.#findLastSuccesses(names)
    const active = await this.#store.countActiveRuns()
    this.#lastSuccess.reset()
    for (const [workflow, last] of this.#successes) if (last !== null) this.#lastSuccess.set({ workflow }, last / 1000)
    this.#active.reset()
    for (const { workflow, status, count } of active) {
      this.#active.inc({ workflow: labelOf(names, workflow), status }, count)
    }
  }

  async #countFinished(names: ReadonlySet<string>): Promise<void> {
    const until = iso((await this.#store.currentTime()) - COMMIT_MS)
    if (until <= this.#countedUntil!) return
    const runs = await this.#store.listFinishedRuns({ after: this.#countedUntil!, until, limit: MAX_RUNS })
    this.#countedUntil = runs.length < MAX_RUNS ? until : runs.at(-1)!.finishedAt
    for (const run of runs) this.#count(run, labelOf(names, run.workflow))
  }

  #count({ workflow: name, status, startedAt, finishedAt, idleMs }: FinishedRun, workflow: string): void {
    const finished = Date.parse(finishedAt)
    this.#finished.inc({ workflow, status })
    if (startedAt !== null) {
      this.#duration.observe({ workflow, status }, Math.max(0, finished - Date.parse(startedAt) - idleMs) / 1000)
    }
    const last = this.#successes.get(name)
    if (status === "success" && last !== undefined) this.#successes.set(name, Math.max(last ?? 0, finished))
  }

  async #findLastSuccesses(names: ReadonlySet<string>): Promise<void> {
    for (const name of this.#successes.keys()) if (!names.has(name)) this.#successes.delete(name)
    for (const workflow of names) {
      if (this.#successes.has(workflow)) continue
      const [run] = await this.#store.listRuns({ workflow, status: "success", limit: 1 })
      this.#successes.set(workflow, run?.finishedAt == null ? null : Date.parse(run.finishedAt))
    }
  }
}

const labelOf = (names: ReadonlySet<string>, workflow: string): string => (names.has(workflow) ? workflow : "other")
