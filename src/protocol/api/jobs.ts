// Schemas of jobs in requests and responses. The limits are those of core/rules/jobs/jobs.ts.

import { z } from "zod"
import { parseDuration } from "../../core/values/quantities.ts"
import { QUEUE_NAME } from "../../core/model/names.ts"
import { BACKOFF_STRATEGIES, DEFAULT_JOB_RETRY, JOB_BOUNDS, JOB_STATUSES } from "../../core/rules/jobs/jobs.ts"
import { FUNCTION_NAME_HINT, isFunctionName } from "../../core/model/function.ts"
import {
  dateTime,
  duration,
  durationMs,
  json,
  list,
  object,
  page,
  priority,
  strictObject,
  text,
  utcInstant,
  uuid,
} from "./common.ts"
import { outputObject, progress } from "./runs.ts"

export const MAX_BATCH = 1000
const MAX_LIMITS = 10

const { max_attempts, base_delay_seconds, max_delay_seconds } = JOB_BOUNDS

const policyFields = {
  max_attempts: z.int().min(max_attempts.min).max(max_attempts.max),
  backoff_strategy: z.enum(BACKOFF_STRATEGIES),
  base_delay_seconds: z.int().min(base_delay_seconds.min).max(base_delay_seconds.max),
  max_delay_seconds: z.int().min(1).max(max_delay_seconds.max),
}

export const MAX_BELOW_BASE = "must not be less than base_delay_seconds"

export const retryPolicy = strictObject({
  max_attempts: policyFields.max_attempts.default(DEFAULT_JOB_RETRY.max_attempts),
  backoff_strategy: policyFields.backoff_strategy.default(DEFAULT_JOB_RETRY.backoff_strategy),
  base_delay_seconds: policyFields.base_delay_seconds.default(DEFAULT_JOB_RETRY.base_delay_seconds),
  max_delay_seconds: policyFields.max_delay_seconds.default(DEFAULT_JOB_RETRY.max_delay_seconds),
}).refine((policy) => policy.max_delay_seconds >= policy.base_delay_seconds, {
  path: ["max_delay_seconds"],
  error: MAX_BELOW_BASE,
})

const BACKOFFS = ["fixed", "linear", "exponential"] as const
const MAX_RETRY_ATTEMPTS = 100

/** Retries as tasks have them. */
export const retry = strictObject({
  max_attempts: z.int().min(1).max(MAX_RETRY_ATTEMPTS),
  backoff: z.enum(BACKOFFS).default("exponential"),
  base_delay: duration.default("1s"),
  max_delay: duration.default("5m"),
  jitter: z.boolean().default(false).meta({ description: "Wait 50 to 100 % of the delay" }),
}).refine((policy) => durationMs(policy.max_delay) >= durationMs(policy.base_delay), {
  path: ["max_delay"],
  error: "must not be less than base_delay",
})

/** A duration that is longer than nothing. */
export const span = duration.refine((value) => parseDuration(value) !== 0, { error: "must be more than 0" })

const name = text(JOB_BOUNDS.name.min, JOB_BOUNDS.name.max)
export const queueName = z.string().regex(QUEUE_NAME, {
  error: "must be 1 to 64 letters, digits and underscores",
})
const dependencies = z.array(uuid).refine((ids) => ids.length <= JOB_BOUNDS.dependencies, {
  error: `must have at most ${JOB_BOUNDS.dependencies} ids`,
})
const payload = json.refine(
  (value) => value === undefined || Buffer.byteLength(JSON.stringify(value)) <= JOB_BOUNDS.payload_bytes,
  {
    error: `must be at most ${JOB_BOUNDS.payload_bytes} bytes as JSON`,
  },
)

export const newJob = strictObject({
  id: uuid.optional(),
  name,
  queue: queueName,
  payload: payload.optional(),
  priority: priority.default(5),
  dependencies: dependencies.default([]),
  retry_policy: retryPolicy.optional().meta({ description: "Lost attempts count", default: DEFAULT_JOB_RETRY }),
  retry: retry.optional().meta({ description: "In place of `retry_policy`: lost attempts do not count (3 lost retries)" }),
  task: object.optional().meta({ description: "Executor fields of a task. Without it, a handler of the queue runs the job" }),
  function: z
    .string()
    .refine(isFunctionName, { error: FUNCTION_NAME_HINT })
    .optional()
    .meta({ description: "Name of the registered function that runs the job, in place of `task`" }),
  concurrency_key: text(1, 255).nullish(),
  concurrency_limit: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .meta({ description: "Jobs of the concurrency key that run at once. Default: 1" }),
  limits: z
    .array(strictObject({ key: text(1, 512), cap: z.int().min(1).max(1_000_000) }))
    .refine((limits) => limits.length <= MAX_LIMITS, { error: `must have at most ${MAX_LIMITS} limits` })
    .default([])
    .meta({ description: "Further limits: at most `cap` jobs with the same `key` run at once, in all queues" }),
  group: text(1, 255).nullish().meta({ description: "Jobs of one queue and priority take turns by group" }),
  idempotency_key: text(1, 255)
    .nullish()
    .meta({ description: "A repeated key of the job's name returns the first job, for as long as it is kept" }),
  run_at: utcInstant.optional().meta({ description: "The job starts at this instant or later" }),
  delay: duration.optional().meta({ description: "The job starts after this time or later" }),
  timeout: span.optional().meta({ description: "Limit of one attempt" }),
  expires: span.optional().meta({ description: "A job that has not started this long after it was available becomes FAILED" }),
})
  .refine((job) => job.retry === undefined || job.retry_policy === undefined, {
    path: ["retry"],
    error: "must not be given together with retry_policy",
  })
  .refine((job) => job.run_at === undefined || job.delay === undefined, {
    path: ["delay"],
    error: "must not be given together with run_at",
  })
  .refine((job) => job.task === undefined || job.function === undefined, {
    path: ["function"],
    error: "must not be given together with task",
  })
  .refine((job) => job.concurrency_limit === undefined || typeof job.concurrency_key === "string", {
    path: ["concurrency_limit"],
    error: "requires concurrency_key",
  })

export const newJobQuery = strictObject({
  on_conflict: z.enum(["existing", "replace", "error"]).optional().meta({
    description:
      "When a job has the idempotency key: return it (default), give it the new settings unless it has started, or reject with 409",
  }),
})

export const newJobs = strictObject({
  jobs: z.array(newJob).refine((jobs) => jobs.length >= 1 && jobs.length <= MAX_BATCH, {
    error: `must be a list of 1 to ${MAX_BATCH} jobs`,
  }),
})

/** Schema of a field that cannot be changed, so that the body of a GET can be sent back. */
const fixed = json.optional().meta({ description: "Cannot be changed: must have its present value" })

/** Fields of a job that `PUT` accepts with their present values only. */
export const READ_ONLY_FIELDS = [
  "id",
  "status",
  "attempt_count",
  "created_at",
  "created_by",
  "updated_at",
  "task",
  "retry",
  "max_attempts",
  "concurrency_key",
  "concurrency_limit",
  "limits",
  "group",
  "idempotency_key",
  "timeout",
  "expires",
  "progress",
  "error",
  "worker",
  "available_at",
  "started_at",
  "finished_at",
] as const

export const jobChange = strictObject({
  name: name.optional(),
  queue: queueName.optional(),
  payload: payload.optional(),
  priority: priority.optional(),
  dependencies: dependencies.optional(),
  retry_policy: strictObject(policyFields)
    .partial()
    .optional()
    .meta({ description: "Fields that are not given keep their values" }),
  ...(Object.fromEntries(READ_ONLY_FIELDS.map((field) => [field, fixed])) as Record<
    (typeof READ_ONLY_FIELDS)[number],
    typeof fixed
  >),
})

export const job = z
  .object({
    id: z.string(),
    name: z.string(),
    queue: z.string(),
    payload: json,
    priority,
    status: z.enum(JOB_STATUSES),
    dependencies: z.array(z.string()),
    retry_policy: z.object({
      max_attempts: z.int(),
      backoff_strategy: z.enum(BACKOFF_STRATEGIES),
      base_delay_seconds: z.int(),
      max_delay_seconds: z.int(),
    }),
    created_at: dateTime,
    created_by: z.string().nullable().meta({ description: "Name of the key or user that created it" }),
    updated_at: dateTime,
    attempt_count: z.int().min(0),
    task: object.nullable(),
    retry: z
      .object({
        max_attempts: z.int(),
        backoff: z.enum(BACKOFFS),
        base_delay: z.string(),
        max_delay: z.string(),
        jitter: z.boolean(),
      })
      .nullable()
      .meta({ description: "Replaces `retry_policy` when it is not null" }),
    max_attempts: z.int().min(1),
    concurrency_key: z.string().nullable(),
    concurrency_limit: z.int(),
    limits: z.array(z.object({ key: z.string(), cap: z.int() })),
    group: z.string().nullable(),
    idempotency_key: z.string().nullable(),
    timeout: z.string().nullable().meta({ description: "Limit of one attempt; null: that of the task, by default 1h" }),
    expires: z.string().nullable(),
    progress: progress.nullable(),
    error: z.string().nullable(),
    worker: z.string().nullable(),
    available_at: dateTime.nullable(),
    started_at: dateTime.nullable(),
    finished_at: dateTime.nullable(),
  })
  .meta({ id: "Job" })

export const jobBatch = z.object({ items: z.array(job) }).meta({ id: "JobBatch" })
export const jobList = list(job)

export const jobResult = z
  .object({
    id: z.string(),
    status: z.enum(JOB_STATUSES),
    output: json,
    output_object: outputObject.nullable(),
    error: z.string().nullable(),
    exit_code: z.int().nullable(),
    finished_at: dateTime.nullable(),
  })
  .meta({ id: "JobResult" })

export const jobParams = strictObject({ job_id: uuid })

/** A bound of priorities, which may be one that no job has. */
const bound = z.int().min(-1_000_000).max(1_000_000)
const MAX_WAIT_MS = 60_000

export const jobResultQuery = strictObject({
  wait: duration
    .refine((value) => (parseDuration(value) ?? 0) <= MAX_WAIT_MS, { error: "must be at most 60s" })
    .optional()
    .meta({ description: "Time to wait for the end of the job, such as 30s" }),
})

const isStatus = (value: string): boolean => (JOB_STATUSES as readonly string[]).includes(value)

const statuses = z
  .string()
  .refine((value) => value.split(",").every(isStatus), {
    error: `must be one of ${JOB_STATUSES.join(", ")}, or several separated by commas`,
  })
  .meta({ examples: ["FAILED", "READY,RUNNING"] })

export const jobQuery = strictObject({
  name: name.optional(),
  queue: queueName.optional(),
  status: statuses.optional(),
  priority_min: bound.optional(),
  priority_max: bound.optional(),
  created_after: utcInstant.optional().meta({ description: "Created at this instant or later" }),
  created_before: utcInstant.optional().meta({ description: "Created before this instant" }),
  ...page,
})
