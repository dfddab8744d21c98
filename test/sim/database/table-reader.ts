// Reads the tables of a store for the checks, by statements of its own: the tables of SQLite, or a copy of those of Postgres. A result is
// kept until a row is written; nobody changes the rows of a result.

import type { DatabaseSync, StatementSync } from "node:sqlite"
import type { JobStatus } from "../../../src/core/rules/jobs/jobs.ts"
import type { RunStatus, SkipReason, TaskStatus } from "../../../src/core/model/status.ts"
import { type RowClass, rowClassOf } from "./row-class.ts"

export interface RunRecord {
  seq: number
  id: string
  workflow: string
  status: RunStatus
  open_tasks: number
  failed: number
  hooks_pending: number
  tasks_total: number
  tasks_success: number
  tasks_failed: number
  tasks_skipped: number
  tasks_cancelled: number
  paused: number
  cancelling: "cancel" | "timeout" | null
  params: string
  private: number
  idempotency_key: string | null
  started_at: string | null
  finished_at: string | null
  error: string | null
  logical_date: string | null
  /** A JSON text: what a trigger started the run for. */
  cause: string | null
}

export interface TaskRecord {
  id: number
  run_seq: number
  node: number
  path: string
  kind: "task" | "fan" | "group"
  hook: number
  status: TaskStatus
  skip_reason: SkipReason | null
  upstream_pending: number
  upstream_failed: number
  upstream_unmet: number
  upstream_waived: number
  lane: string
  priority: number
  parked: number | null
  /** A JSON array of limit ids. */
  limits: string | null
  attempt: number
  failures: number
  losses: number
  attempt_id: string | null
  holder: number | string | null
  available_at: string | null
  parent_id: number | null
  item: string | null
  output: string | null
  output_key: string | null
  error: string | null
  finished_at: string | null
  children_total: number | null
  children_pending: number | null
  children_failed: number
  children_created: number
  waiting_on: string | null
  started_at: string | null
}

export interface LimitRecord {
  id: number
  key: string
  cap: number
  used: number
}

export interface ScheduleRecord {
  id: number
  workflow_id: number
  workflow: string
  /** A JSON text. */
  spec: string
  next_at: string | null
}

export interface TickRecord {
  tick_at: string
  run_id: string | null
  /** Why the tick has no run. */
  skipped: string | null
}

export interface AttemptRecord {
  attempt: number
  attempt_id: string
  state: string
}

/** A recorded step of a durable function. */
export interface StepRecord {
  name: string
  occurrence: number
  kind: string
  state: "waiting" | "success" | "failed"
  failures: number
  output: string | null
  output_key: string | null
  output_bytes: number | null
  /** A JSON text. */
  details: string
}

const RUN_COLUMNS = [
  "seq",
  "id",
  "status",
  "open_tasks",
  "failed",
  "hooks_pending",
  "tasks_total",
  "tasks_success",
  "tasks_failed",
  "tasks_skipped",
  "tasks_cancelled",
  "paused",
  "cancelling",
  "params",
  "private",
  "idempotency_key",
  "started_at",
  "finished_at",
  "error",
  "logical_date",
  "cause",
] as const satisfies (keyof RunRecord)[]

const TASK_COLUMNS = [
  "id",
  "run_seq",
  "node",
  "path",
  "kind",
  "hook",
  "status",
  "skip_reason",
  "upstream_pending",
  "upstream_failed",
  "upstream_unmet",
  "upstream_waived",
  "lane",
  "priority",
  "parked",
  "limits",
  "attempt",
  "failures",
  "losses",
  "attempt_id",
  "holder",
  "available_at",
  "parent_id",
  "item",
  "output",
  "output_key",
  "error",
  "finished_at",
  "children_total",
  "children_pending",
  "children_failed",
  "children_created",
  "waiting_on",
  "started_at",
] as const satisfies (keyof TaskRecord)[]

/** Columns that the checks after every step do not need. */
const COLUMNS_OF_SINGLE_TASKS = [
  "priority",
  "attempt",
  "failures",
  "losses",
  "item",
  "output",
  "output_key",
  "error",
  "finished_at",
] as const satisfies (keyof TaskRecord)[]

export type OpenTask = Omit<TaskRecord, (typeof COLUMNS_OF_SINGLE_TASKS)[number]>

export type ReadyTask = Pick<TaskRecord, "id" | "lane" | "attempt"> & { private: number; run_id: string }

const OPEN_COLUMNS = TASK_COLUMNS.filter((name) => !(COLUMNS_OF_SINGLE_TASKS as readonly string[]).includes(name))
  .map((name) => `t.${name}`)
  .join(", ")

const OPEN_TASKS = `
SELECT ${OPEN_COLUMNS}
FROM tasks t JOIN runs r ON r.seq = t.run_seq
WHERE r.status IN ('pending', 'running') OR r.hooks_pending > 0
ORDER BY t.id`

const RUN = `SELECT ${RUN_COLUMNS.map((name) => `r.${name}`).join(", ")}, w.name AS workflow
FROM runs r JOIN workflows w ON w.id = r.workflow_id`

const TASK = `SELECT ${TASK_COLUMNS.join(", ")} FROM tasks`

const READY_ROW = `t.status = 'pending' AND t.attempt_id IS NULL AND t.upstream_pending = 0 AND t.parked IS NULL
  AND t.available_at IS NULL`

const READY = `${READY_ROW} AND r.paused = 0 AND (r.cancelling IS NULL OR t.hook = 1)`

/** A prepared statement, and what it returned since the tables last changed. */
class Query {
  readonly #statement: StatementSync
  readonly #rowClass: RowClass
  /** Results, by values. */
  readonly results = new Map<string, unknown[]>()

  constructor(statement: StatementSync) {
    this.#statement = statement
    this.#rowClass = rowClassOf(statement.columns().map(({ name }) => name))
    statement.setReturnArrays(true)
  }

  read(values: readonly (string | number)[]): unknown[] {
    const rows = this.#statement.all(...values) as unknown as (string | number | null)[][]
    return rows.map((row) => new this.#rowClass(row))
  }
}

export class TableReader {
  readonly #db: DatabaseSync
  readonly #queries = new Map<string, Query>()
  /** Counts the rows that the connection has written. */
  readonly #changes: StatementSync
  #changesBefore = -1

  constructor(db: DatabaseSync) {
    this.#db = db
    this.#changes = db.prepare("SELECT total_changes()")
    this.#changes.setReturnArrays(true)
  }

  /** Forgets the results of earlier reads if the tables have changed since. */
  refresh(): void {
    const [changes] = this.#changes.get() as unknown as [number]
    if (changes === this.#changesBefore) return
    this.#changesBefore = changes
    for (const { results } of this.#queries.values()) results.clear()
  }

  #all<T>(sql: string, ...values: (string | number)[]): T[] {
    let query = this.#queries.get(sql)
    if (query === undefined) this.#queries.set(sql, (query = new Query(this.#db.prepare(sql))))
    const key = values.join("\n")
    let rows = query.results.get(key)
    if (rows === undefined) query.results.set(key, (rows = query.read(values)))
    return rows as T[]
  }

  runs(): RunRecord[] {
    return this.#all(`${RUN} ORDER BY r.seq`)
  }

  run(id: string): RunRecord | undefined {
    return this.#all<RunRecord>(`${RUN} WHERE r.id = ?`, id)[0]
  }

  runBySeq(seq: number): RunRecord {
    return this.#all<RunRecord>(`${RUN} WHERE r.seq = ?`, seq)[0]!
  }

  /** The id of the run that started a sub-workflow's run; null: none did. */
  parentRun(id: string): string | null {
    return this.#all<{ parent_run: string | null }>("SELECT parent_run FROM runs WHERE id = ?", id)[0]!.parent_run
  }

  /** The run of the sub-workflow that an attempt started. */
  childRun(attemptId: string): { status: RunStatus } | undefined {
    return this.#all<{ status: RunStatus }>("SELECT status FROM runs WHERE idempotency_key = ?", `task:${attemptId}`)[0]
  }

  /** Counts the runs that have not closed or have unfinished hooks. */
  countUnfinishedRuns(): number {
    const sql = "SELECT count(*) AS n FROM runs WHERE status IN ('pending', 'running') OR hooks_pending > 0"
    return this.#all<{ n: number }>(sql)[0]!.n
  }

  /** The rows of a run with all columns, to find any that has changed. */
  tasksOf(runSeq: number): TaskRecord[] {
    return this.#all("SELECT * FROM tasks WHERE run_seq = ? ORDER BY id", runSeq)
  }

  /** The rows of unfinished jobs. */
  openJobs(): OpenTask[] {
    return this.#all(`SELECT ${OPEN_COLUMNS} FROM tasks t WHERE t.run_seq = 0 AND t.finished_at IS NULL ORDER BY t.id`)
  }

  /** Jobs, with the errors of their rows. */
  jobs(): { id: string; status: JobStatus; error: string | null }[] {
    return this.#all("SELECT j.id, j.status, t.error FROM jobs j JOIN tasks t ON t.id = j.task_id ORDER BY j.task_id")
  }

  /** The status of a job, and the number of its last attempt. */
  job(id: string): { status: JobStatus; attempt: number } | undefined {
    return this.#all<{ status: JobStatus; attempt: number }>(
      "SELECT j.status, t.attempt FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = ?",
      id,
    )[0]
  }

  countUnfinishedJobs(): number {
    return this.#all<{ n: number }>("SELECT count(*) AS n FROM jobs WHERE status IN ('PENDING', 'READY', 'RUNNING')")[0]!.n
  }

  /** All rows of unfinished runs, without large columns. */
  openTasks(): OpenTask[] {
    return this.#all(OPEN_TASKS)
  }

  /** The highest id of a task; 0: there is none. */
  lastTask(): number {
    return this.#all<{ id: number | null }>("SELECT max(id) AS id FROM tasks")[0]!.id ?? 0
  }

  task(runSeq: number, node: number, path: string): TaskRecord | undefined {
    return this.#all<TaskRecord>(`${TASK} WHERE run_seq = ? AND node = ? AND path = ?`, runSeq, node, path)[0]
  }

  taskByRow(row: number): TaskRecord | undefined {
    return this.#all<TaskRecord>(`${TASK} WHERE id = ?`, row)[0]
  }

  childrenOf(containerRow: number): TaskRecord[] {
    return this.#all(`${TASK} WHERE parent_id = ? ORDER BY id`, containerRow)
  }

  attempts(row: number): AttemptRecord[] {
    return this.#all("SELECT attempt, attempt_id, state FROM attempts WHERE task_id = ? ORDER BY attempt", row)
  }

  /** The recorded steps of a durable function, by its row. */
  steps(row: number): StepRecord[] {
    return this.#all("SELECT * FROM steps WHERE task_id = ? ORDER BY position, name, occurrence", row)
  }

  /** Counts the entries that transactions of functions have written. */
  countLedger(entry: string): number {
    return this.#all<{ n: number }>("SELECT count(*) AS n FROM ledger WHERE entry = ?", entry)[0]!.n
  }

  limits(): LimitRecord[] {
    return this.#all("SELECT * FROM limits ORDER BY id")
  }

  /** A ready row up to `last` in one of these lanes that has no limits and a higher priority. */
  readyAbove(priority: number, lanes: readonly string[], last: number): { id: number; priority: number } | undefined {
    return this.#all<{ id: number; priority: number }>(
      `SELECT t.id, t.priority FROM tasks t JOIN runs r ON r.seq = t.run_seq
       WHERE ${READY} AND t.lane IN (SELECT value FROM json_each(?)) AND t.priority > ? AND t.id <= ? AND t.limits IS NULL LIMIT 1`,
      JSON.stringify(lanes),
      priority,
      last,
    )[0]
  }

  /** Rows that can be claimed. */
  ready(): ReadyTask[] {
    return this.#all(
      `SELECT t.id, t.lane, t.attempt, r.private, r.id AS run_id FROM tasks t JOIN runs r ON r.seq = t.run_seq
       WHERE ${READY} ORDER BY t.id`,
    )
  }

  /** Jobs that can be claimed. */
  readyJobs(): ReadyTask[] {
    return this.#all(
      `SELECT t.id, t.lane, t.attempt, 0 AS private, '' AS run_id FROM tasks t WHERE t.run_seq = 0 AND ${READY_ROW} ORDER BY t.id`,
    )
  }

  schedules(): ScheduleRecord[] {
    return this.#all("SELECT s.*, w.name AS workflow FROM schedules s JOIN workflows w ON w.id = s.workflow_id ORDER BY s.id")
  }

  /** The ticks of a workflow with one schedule. */
  ticks(workflowId: number): TickRecord[] {
    return this.#all("SELECT tick_at, run_id, skipped FROM ticks WHERE workflow_id = ? ORDER BY tick_at", workflowId)
  }

  /** Counts the schedules that will tick again. */
  countActiveSchedules(): number {
    const sql = "SELECT count(*) AS n FROM schedules WHERE active = 1 AND next_at IS NOT NULL"
    return this.#all<{ n: number }>(sql)[0]!.n
  }

  /** The lanes of the attempts in flight, which use slots. */
  lanesInFlight(): { lane: string }[] {
    return this.#all(
      "SELECT lane FROM tasks WHERE holder IS NOT NULL AND status IN ('dispatched', 'running') AND waiting_on IS NULL AND kind = 'task'",
    )
  }

  /** Names of the workflows whose successes triggers have not used. */
  unusedSuccesses(): string[] {
    return this.#all<{ upstream: string }>("SELECT upstream FROM trigger_successes").map(({ upstream }) => upstream)
  }

  holders(): { id: string; lease_until: string }[] {
    return this.#all("SELECT id, lease_until FROM holders ORDER BY seq")
  }
}
