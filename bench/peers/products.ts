// The products of the benchmark: Ork on both stores, and what its users could choose instead.

export interface Product {
  name: string
  /** File of the driver. */
  driver: string
  /** Settings beside the defaults, as the report states them. */
  settings: string
  workloads: readonly Workload[]
  /** Jobs of the workloads `jobs` and `memory`, for products that take minutes for more. */
  maxJobs?: number
}

export type Workload = "jobs" | "latency" | "graphs" | "functions" | "memory"

const ALL: readonly Workload[] = ["jobs", "latency", "graphs", "functions", "memory"]

export const PRODUCTS: readonly Product[] = [
  { name: "Ork SQLite", driver: "ork-sqlite.ts", settings: "defaults; synchronous=FULL", workloads: ALL },
  { name: "Ork Postgres", driver: "ork-postgres.ts", settings: "defaults", workloads: ALL },
  {
    name: "Graphile Worker",
    driver: "graphile-worker.mjs",
    settings:
      "24 jobs at once, local queue of 500, batched completions; without the local queue for latency; deletes finished jobs",
    workloads: ["jobs", "latency", "memory"],
  },
  {
    name: "pg-boss",
    driver: "pg-boss.mjs",
    settings: "notifications, batches of 500 for jobs and of 1 for latency",
    workloads: ["jobs", "latency", "memory"],
  },
  {
    name: "BullMQ",
    driver: "bullmq.mjs",
    settings: "100 jobs at once, keeps the last 1,000; Redis with its default settings, which can lose acknowledged jobs",
    workloads: ["jobs", "latency", "graphs", "memory"],
  },
  { name: "DBOS", driver: "dbos.mjs", settings: "pool of 20 connections", workloads: ["functions"] },
  { name: "Restate", driver: "restate.mjs", settings: "its own server, 200 requests at once", workloads: ["functions"] },
  { name: "OpenWorkflow Postgres", driver: "openworkflow.mjs", settings: "20 at once", workloads: ["functions"] },
]
