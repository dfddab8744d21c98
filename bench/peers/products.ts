// The products of the benchmark: Ork on both stores, and what its users could choose instead.

export interface Product {
  name: string
  /** File of the driver. */
  driver: string
  /** Settings beside the defaults, as the report states them. */
  settings: string
  workloads: readonly Workload[]
  /** Settings of a product that has several. */
  variant?: Variant
}

export interface Variant {
  /** Option of `Ork.open`. Default: Ork's. */
  concurrency?: number
  /** Jobs go through a server and its worker, not through `Ork.open`. */
  overHttp?: boolean
}

/** `processes` and `million` measure how figures change with the number of processes and jobs. */
export type Workload = "jobs" | "latency" | "graphs" | "functions" | "memory" | "processes" | "million"

const ALL: readonly Workload[] = ["jobs", "latency", "graphs", "functions", "memory", "million"]

/** Attempts of a process at once, in the comparison of the default settings with others. */
const TUNED_CONCURRENCY = 1000
const TUNED = `${TUNED_CONCURRENCY.toLocaleString("en-US")} jobs at once`

export const PRODUCTS: readonly Product[] = [
  { name: "Ork SQLite", driver: "ork-sqlite.ts", settings: "defaults; synchronous=FULL", workloads: ALL },
  { name: "Ork Postgres", driver: "ork-postgres.ts", settings: "defaults", workloads: [...ALL, "processes"] },
  {
    name: "Ork SQLite, tuned",
    driver: "ork-sqlite.ts",
    settings: `${TUNED}; synchronous=FULL`,
    workloads: ["jobs"],
    variant: { concurrency: TUNED_CONCURRENCY },
  },
  {
    name: "Ork Postgres, tuned",
    driver: "ork-postgres.ts",
    settings: TUNED,
    workloads: ["jobs"],
    variant: { concurrency: TUNED_CONCURRENCY },
  },
  {
    name: "Ork SQLite over HTTP",
    driver: "ork-sqlite.ts",
    settings: "defaults; `ork serve` in a process of its own, `OrkClient` and `startWorker` in that of the benchmark",
    workloads: ["jobs"],
    variant: { overHttp: true },
  },
  {
    name: "Ork Postgres over HTTP",
    driver: "ork-postgres.ts",
    settings: "the same",
    workloads: ["jobs"],
    variant: { overHttp: true },
  },
  {
    name: "Graphile Worker",
    driver: "graphile-worker.mjs",
    settings:
      "24 jobs at once, local queue of 500, batched completions; without the local queue for latency; deletes finished jobs",
    workloads: ["jobs", "latency", "memory", "million"],
  },
  {
    name: "pg-boss",
    driver: "pg-boss.mjs",
    settings: "notifications, batches of 500 for jobs and of 1 for latency",
    workloads: ["jobs", "latency", "memory", "million"],
  },
  {
    name: "BullMQ",
    driver: "bullmq.mjs",
    settings: "100 jobs at once, keeps the last 1,000; Redis with its default settings, which can lose acknowledged jobs",
    workloads: ["jobs", "latency", "graphs", "memory", "million"],
  },
  { name: "DBOS", driver: "dbos.mjs", settings: "pool of 20 connections", workloads: ["functions"] },
  { name: "Restate", driver: "restate.mjs", settings: "its own server, 200 requests at once", workloads: ["functions"] },
  { name: "OpenWorkflow Postgres", driver: "openworkflow.mjs", settings: "20 at once", workloads: ["functions"] },
]
