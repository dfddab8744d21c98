// Jobs as task rows in both stores: rows without a run, whose path is the id of the job.

import { createHash } from "node:crypto"
import { indexKey } from "../../core/values/index-key.ts"
import { jobLimitKey, sharedLimitKey } from "../../core/routing/limit-keys.ts"
import { BoundedMap } from "../../core/values/bounded-map.ts"
import type { JobPlan } from "../../core/rules/jobs/job-plan.ts"
import {
  DEFAULT_JOB_RETRY,
  isJobFinished,
  JOB_BOUNDS,
  type JobRetryPolicy,
  type JobStatus,
} from "../../core/rules/jobs/jobs.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { handlerLane, workLane } from "../../core/routing/lanes.ts"
import type { Limit } from "../../core/model/row.ts"
import type { TaskStatus } from "../../core/model/status.ts"
import type { Progress } from "../contract/store.ts"
import type { ClaimedJob } from "../contract/claim.ts"
import { JOB_DEFAULTS, type JobFilter, type JobRow, type JobStore, type NewJob } from "../contract/jobs.ts"
import { outputOf } from "./codec.ts"
import type { OutputRow } from "./task-rows.ts"

/** `run_seq` of job rows, which belong to no run. */
export const JOB_RUN_SEQ = 0

/** Returns whether a row is that of a job, and not of a run's task. */
export const isJobRow = (runSeq: number): boolean => runSeq === JOB_RUN_SEQ

/** Returns whether the job of a row was deleted: deleting a running job adds the attempt id to the path of its row, after a space. */
export const isDeletedJob = (path: string): boolean => path.includes(" ")

/** Returns whether a job has not started: such a job can be replaced, and can expire. */
export const hasNotStarted = ({ status, attempt }: { status: TaskStatus; attempt: number }): boolean =>
  status === "pending" && attempt === 0

/** SQL condition equal to `hasNotStarted`, for the row `t`. */
export const HAS_NOT_STARTED = "t.status = 'pending' AND t.attempt = 0"

/** Returns whether a job is claimed for the first time, and may not have started: its claim can be released. */
export const isFirstClaim = ({ status, attempt }: { status: TaskStatus; attempt: number }): boolean =>
  status === "dispatched" && attempt === 1

/** SQL condition equal to `isFirstClaim`, for the row `t`. */
export const IS_FIRST_CLAIM = "t.status = 'dispatched' AND t.attempt = 1"

/** Returns whether a job reached a final status this long ago, as `removableJobs` requires. */
export const endedLongAgo = (
  { status, updatedAt }: Pick<JobRow, "status" | "updatedAt">,
  olderThanMs: number,
  now: number,
): boolean => isJobFinished(status) && Date.parse(updatedAt) < now - olderThanMs

const STATUS = {
  pending: "READY",
  dispatched: "RUNNING",
  running: "RUNNING",
  success: "COMPLETED",
  failed: "FAILED",
  cancelled: "FAILED",
  skipped: "BLOCKED",
} as const satisfies Record<TaskStatus, JobStatus>

/** Returns the status of a job from that of its row, once its dependencies are completed. Before that the job is PENDING. */
export const jobStatus = (row: TaskStatus): JobStatus => STATUS[row]

const nameOf = (name: unknown): string => (typeof name === "string" ? name : "")

/** Returns the lane of a job. A job without a task waits for a handler of its queue. */
export const jobLane = ({ queue, task }: Pick<NewJob, "queue" | "task">): string =>
  task === null
    ? handlerLane(queue)
    : workLane(
        { id: "", private: false },
        { queue, labels: [], executor: nameOf(task["executor"]), function: nameOf(task["function"]) },
      )

type LimitedJob = Pick<NewJob, "queue" | "concurrencyKey" | "concurrencyLimit" | "limits">

/** Returns the limits of a job as the store keys them: that of its concurrency key, then `limits`. */
export const jobLimits = ({ queue, concurrencyKey, concurrencyLimit, limits }: LimitedJob): Limit[] => {
  const own = concurrencyKey === null ? [] : [{ key: jobLimitKey(queue, concurrencyKey), cap: concurrencyLimit }]
  if (limits.length === 0) return own
  const shared = new Map(limits.map(({ key, cap }) => [sharedLimitKey(key), cap]))
  return [...own, ...[...shared].map(([key, cap]) => ({ key, cap }))]
}

const FIRST_JOB_GROUP = 2 ** 47

/**
 * Returns the `workflow_id` of a job's row, by which claims take turns: a number of its group, above the ids of workflows; 0 without a
 * group.
 */
export const jobGroupNumber = ({ group }: Pick<NewJob, "group">): number =>
  group === null ? 0 : FIRST_JOB_GROUP + (createHash("sha256").update(group).digest().readUIntBE(0, 6) % FIRST_JOB_GROUP)

/** Returns the key of a job as it is stored. */
export const keyColumn = ({ key }: Pick<NewJob, "key">): string | null => (key === null ? null : indexKey(key))

/** Returns when a new job becomes available, in epoch milliseconds; null: at once. */
export const availableAtMs = ({ runAt, delayMs }: Pick<NewJob, "runAt" | "delayMs">, now: number): number | null => {
  const at = runAt === null ? now + (delayMs ?? 0) : Date.parse(runAt)
  return at > now ? at : null
}

const MAX_REMEMBERED = 100
const MAX_REMEMBERED_LENGTH = 2048

/** Returns a function that remembers its results for short texts, which jobs of one name mostly share. Nobody changes a result. */
const remember = <Result>(compute: (text: string) => Result): ((text: string) => Result) => {
  const results = new BoundedMap<string, Result>(MAX_REMEMBERED)
  let last: { text: string; result: Result } | null = null
  return (text) => {
    // Comparing two texts costs less than finding one.
    if (last?.text === text) return last.result
    if (text.length > MAX_REMEMBERED_LENGTH) return compute(text)
    const result = results.getOrCreate(text, () => compute(text))
    last = { text, result }
    return result
  }
}

const texts = new WeakMap<object, string>()

/** Returns an object that many jobs share, such as their policy, as JSON. Nobody changes it afterwards. */
export const sharedJson = (value: object): string => {
  let text = texts.get(value)
  if (text === undefined) texts.set(value, (text = JSON.stringify(value)))
  return text
}

// -- settings --------------------------------------------------------------------------------------------------------------------

/** Fields in the column `settings`, a JSON object of those that differ from the default; NULL when none does. */
type JobSettings = Pick<NewJob, "retry" | "concurrencyLimit" | "limits" | "runAt" | "delayMs" | "timeoutMs" | "group">

const SETTINGS = ["retry", "concurrencyLimit", "limits", "runAt", "delayMs", "timeoutMs", "group"] as const

const DEFAULT_SETTINGS: JobSettings = {
  retry: JOB_DEFAULTS.retry,
  concurrencyLimit: JOB_DEFAULTS.concurrencyLimit,
  limits: JOB_DEFAULTS.limits,
  runAt: JOB_DEFAULTS.runAt,
  delayMs: JOB_DEFAULTS.delayMs,
  timeoutMs: JOB_DEFAULTS.timeoutMs,
  group: JOB_DEFAULTS.group,
}

const isSame = (field: (typeof SETTINGS)[number], a: JobSettings, b: JobSettings): boolean =>
  a[field] === b[field] || (field === "limits" && a.limits.length === 0 && b.limits.length === 0)

/** The settings that were encoded last: jobs of one name mostly share theirs. */
let last: { settings: JobSettings; column: string | null } = { settings: DEFAULT_SETTINGS, column: null }

export const settingsColumn = ({
  retry,
  concurrencyLimit,
  limits,
  runAt,
  delayMs,
  timeoutMs,
  group,
}: JobSettings): string | null => {
  const settings = { retry, concurrencyLimit, limits, runAt, delayMs, timeoutMs, group }
  if (!SETTINGS.every((field) => isSame(field, settings, last.settings))) {
    const given = SETTINGS.filter((field) => !isSame(field, settings, DEFAULT_SETTINGS))
    const column =
      given.length === 0 ? null : JSON.stringify(Object.fromEntries(given.map((field) => [field, settings[field]])))
    last = { settings, column }
  }
  return last.column
}

const parseSettings = remember((column: string): JobSettings => ({
  ...DEFAULT_SETTINGS,
  ...(JSON.parse(column) as Partial<JobSettings>),
}))

const settingsOf = (column: string | null): JobSettings => (column === null ? DEFAULT_SETTINGS : parseSettings(column))

/** Returns the limits of a job from its columns. */
export const limitsOfJob = (job: { queue: string; concurrencyKey: string | null; settings: string | null }): Limit[] =>
  jobLimits({ ...settingsOf(job.settings), queue: job.queue, concurrencyKey: job.concurrencyKey })

// -- rows ------------------------------------------------------------------------------------------------------------------------

/** Columns of `jobs` that a claim carries. */
export interface ClaimedJobColumns {
  id: string
  name: string
  queue: string
  payload: string
  retry_policy: string
  task: string | null
  settings: string | null
}

const parsePolicy = remember((text: string) => JSON.parse(text) as JobRetryPolicy)
const parseTask = remember((text: string) => JSON.parse(text) as JsonObject)

export const claimedJob = ({ id, name, queue, payload, retry_policy, task, settings }: ClaimedJobColumns): ClaimedJob => {
  const { retry, timeoutMs } = settingsOf(settings)
  return {
    id,
    name,
    queue,
    payload: JSON.parse(payload) as Json,
    retryPolicy: parsePolicy(retry_policy),
    retry,
    timeoutMs,
    task: task === null ? null : parseTask(task),
  }
}

/** Stands in for a job that was deleted while its attempt was in flight. */
export const DELETED_JOB: ClaimedJob = {
  id: "",
  name: "",
  queue: "",
  payload: null,
  retryPolicy: DEFAULT_JOB_RETRY,
  retry: null,
  timeoutMs: null,
  task: null,
}

/** Columns of a job `j`, joined with its row `t` and left-joined with the limit `l` under which it is parked. */
export const JOB_COLUMNS = `j.task_id AS "row", j.id, j.name, j.queue, j.payload, j.priority, j.retry_policy, j.task,
  j.settings, j.key, j.expires_ms AS "expiresMs",  j.concurrency_key AS "concurrencyKey", j.status, j.created_at AS "createdAt", j.created_by AS "createdBy", j.updated_at AS "updatedAt",
  t.attempt AS "attemptCount", t.error, t.exit_code AS "exitCode", t.output, t.output_key, t.output_bytes, t.worker,
  t.status AS row_status, t.dispatched_at, t.progress, l.key AS limit_key, l.cap, l.used,
  t.attempt_id AS "attemptId", t.available_at AS "availableAt", t.started_at AS "startedAt", t.finished_at AS "finishedAt"`

type DerivedFields = "output" | "dependencies" | "created" | "progress" | "parked"

export type JobColumns = Omit<JobRow, keyof ClaimedJob | keyof JobSettings | DerivedFields> &
  ClaimedJobColumns &
  OutputRow & {
    row_status: TaskStatus
    dispatched_at: string | null
    progress: string | null
    limit_key: string | null
    cap: number | null
    used: number | null
  }

/** Returns whether the row of a job has an attempt. A claim does not write to `jobs`: the status there is the one before it. */
const isInFlight = (row: TaskStatus): boolean => row === "dispatched" || row === "running"

export const jobOf = (columns: JobColumns, dependencies: string[]): JobRow => {
  const { id, name, queue, payload, retry_policy, task, settings, output, output_key, output_bytes, ...rest } = columns
  const { row_status, dispatched_at, progress, limit_key, cap, used, ...row } = rest
  const claimedAt = isInFlight(row_status) ? dispatched_at : null
  return {
    ...claimedJob({ id, name, queue, payload, retry_policy, task, settings }),
    ...settingsOf(settings),
    ...row,
    ...(isInFlight(row_status) && { status: "RUNNING" as const }),
    ...(claimedAt !== null && claimedAt > row.updatedAt && { updatedAt: claimedAt }),
    created: true,
    progress: progress === null ? null : (JSON.parse(progress) as Progress),
    parked: limit_key === null ? null : { limit: limit_key, cap: cap!, used: used! },
    output: outputOf(output, output_key, output_bytes),
    dependencies,
  }
}

/** Returns the row of a job that was just created: nothing has to be read back. */
export const createdJob = (
  job: NewJob,
  { status, rowStatus, error }: JobPlan,
  { row, at, availableAt }: { row: number; at: string; availableAt: string | null },
): JobRow => ({
  ...job,
  dependencies: [...new Set(job.dependencies)],
  key: keyColumn(job),
  row,
  created: true,
  createdBy: job.createdBy ?? null,
  status,
  createdAt: at,
  updatedAt: at,
  attemptCount: 0,
  error,
  exitCode: null,
  output: null,
  worker: null,
  attemptId: null,
  availableAt,
  startedAt: null,
  finishedAt: rowStatus === "skipped" ? at : null,
  progress: null,
  parked: null,
})

// -- search ----------------------------------------------------------------------------------------------------------------------

/** The part of a search that is equal in both stores. Jobs are found by priority, newest first. */
export interface JobSearch {
  priorities: number[]
  /** Jobs were created before this time; null: no limit. */
  createdBefore: string | null
  /** Jobs of this time with a greater id come first, if any. */
  ties: { createdAt: string; id: string } | null
}

/** The statuses of a search, by how a store finds the jobs. */
export interface SearchedStatuses {
  /** Statuses by which an index lists jobs. */
  listed: readonly JobStatus[]
  ready: boolean
  running: boolean
  completed: boolean
}

const LISTED_STATUSES = ["PENDING", "FAILED", "BLOCKED"] as const satisfies JobStatus[]

/** Returns `any` for a search without a status. */
export const searchedStatuses = ({ status }: Pick<JobFilter, "status">): SearchedStatuses | "any" => {
  if (status === undefined) return "any"
  const asked = new Set(typeof status === "string" ? [status] : status)
  return {
    listed: LISTED_STATUSES.filter((each) => asked.has(each)),
    ready: asked.has("READY"),
    running: asked.has("RUNNING"),
    completed: asked.has("COMPLETED"),
  }
}

export const planSearch = ({ filter, after }: Pick<Parameters<JobStore["searchJobs"]>[0], "filter" | "after">): JobSearch => {
  const { createdBefore, priorityMin, priorityMax } = filter
  const { min, max } = JOB_BOUNDS.priority
  const from = Math.max(min, priorityMin ?? min)
  const to = Math.min(max, priorityMax ?? max)
  const endsBeforeCursor = createdBefore !== undefined && (after === undefined || createdBefore <= after.createdAt)
  return {
    priorities: Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i),
    createdBefore: endsBeforeCursor ? createdBefore : (after?.createdAt ?? null),
    ties: endsBeforeCursor ? null : (after ?? null),
  }
}
