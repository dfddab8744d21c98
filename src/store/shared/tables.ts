// The tables of both stores, as a copy of the whole database reads and writes them. Columns come from the database itself, so that a
// migration that adds one needs no change here; a test compares this list with the schemas.

import type { Cell, TableChunk } from "../contract/transfer.ts"

/** Tables in the order of the copy, with the columns that order their rows. */
export const TABLES: Readonly<Record<string, readonly string[]>> = {
  settings: ["name"],
  workflows: ["id"],
  versions: ["id"],
  run_numbers: ["workflow_id"],
  schedules: ["id"],
  ticks: ["workflow_id", "schedule", "tick_at"],
  triggers: ["id"],
  trigger_upstreams: ["upstream", "trigger_id"],
  trigger_successes: ["id"],
  trigger_paths: ["workflow_id", "pattern"],
  trigger_files: ["workflow_id", "pattern", "path", "version"],
  queues: ["name"],
  limits: ["id"],
  runs: ["seq"],
  tasks: ["id"],
  attempts: ["task_id", "attempt"],
  steps: ["task_id", "name", "occurrence"],
  signals: ["id"],
  jobs: ["task_id"],
  job_edges: ["dependency", "dependent"],
  stop_requests: ["task_id"],
  deadlines: ["task_id"],
  cache: ["workflow_id", "task", "key"],
  notifications: ["id"],
  notification_problems: ["id"],
  api_keys: ["id"],
  sessions: ["hash"],
  used_messages: ["key"],
  audit: ["seq"],
  activity: ["minute"],
}

/** Columns that only one store has. */
export const NOT_COPIED_COLUMNS: readonly string[] = [
  "tasks.padding",
  "tasks.inner_run",
  "runs.generation",
  "jobs.listed_status",
]

/** Columns that name a lease holder. A copy holds 1 in place of any holder. */
export const HOLDER_COLUMNS: readonly string[] = ["tasks.holder", "stop_requests.holder"]

/** The last chunk: the last number of each sequence, by table. A number must not be used again after its row was removed. */
export const SEQUENCES = "sequences"
export const SEQUENCE_COLUMNS = ["table", "last"] as const

/** A row may hold a whole definition. */
export const ROWS_PER_CHUNK = 100

/** Groups rows into chunks. Yields a chunk without rows for an empty table. */
export function* chunked(table: string, columns: readonly string[], rows: Iterable<readonly Cell[]>): Generator<TableChunk> {
  let chunk: (readonly Cell[])[] = []
  for (const row of rows) {
    chunk.push(row)
    if (chunk.length < ROWS_PER_CHUNK) continue
    yield { table, columns, rows: chunk }
    chunk = []
  }
  yield { table, columns, rows: chunk }
}

/** The dead holder of the attempts in flight of a loaded database. */
export const FORMER_HOLDER = { kind: "server", name: "before the copy", process: "" } as const
