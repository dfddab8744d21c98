// Schemas of workflows, their versions and schedules in requests and responses.

import { z } from "zod"
import { RUN_STATUSES } from "../../core/model/status.ts"
import { FUNCTION_NAME_HINT, isFunctionName } from "../../core/model/function.ts"
import { DEFAULT_PRIORITY, PARAM_TYPES } from "../../core/model/workflow.ts"
import {
  dateTime,
  dayOrInstant,
  json,
  list,
  object,
  page,
  priority,
  problem,
  strictObject,
  text,
  workflowName,
} from "./common.ts"
import { queueName, retry, span } from "./jobs.ts"

export const scheduleSpec = z
  .object({
    cron: z.string(),
    timezone: z.string(),
    catchup: z.enum(["none", "latest", "all"]),
    overlap: z.enum(["allow", "skip", "queue", "cancel"]),
    jitter_seconds: z.number().nullable(),
    start: z.string().nullable(),
    end: z.string().nullable(),
  })
  .meta({ id: "ScheduleSpec" })

export const trigger = z
  .object({
    after: z.array(z.string()).nullable().meta({ description: "Workflows whose successful runs it follows" }),
    when: z.enum(["all", "any"]).nullable(),
    path: z.string().nullable().meta({ description: "Pattern of the files or objects that it creates runs for" }),
    every_seconds: z.number().nullable().meta({ description: "How often it looks for them" }),
    problem: z
      .string()
      .nullable()
      .meta({ description: "Why it created no run the last time that it was to create one. In lists: null" }),
  })
  .meta({ id: "Trigger" })

const summary = {
  name: z.string(),
  version: z.int(),
  description: z.string().nullable(),
  tags: z.array(z.string()),
  paused: z.boolean(),
  schedules: z.array(scheduleSpec),
  triggers: z.array(trigger),
  created_at: dateTime,
  updated_at: dateTime,
}

const lastRun = z.object({
  id: z.string(),
  number: z.int(),
  status: z.enum(RUN_STATUSES),
  created_at: dateTime,
  started_at: dateTime.nullable(),
  finished_at: dateTime.nullable(),
  idle_ms: z.int(),
})

const bundleHash = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hexadecimal")

export const bundleParams = z.object({ hash: bundleHash })

export const bundle = z.object({ hash: z.string(), bytes: z.int() }).meta({ id: "Bundle" })

export const definitionQuery = strictObject({
  bundle: bundleHash
    .optional()
    .meta({ description: "Hash of the bundle with the files that the definition names, sent before by PUT /bundles/{hash}" }),
})

export const workflowSummary = z
  .object({
    ...summary,
    next_at: dateTime.nullable().meta({ description: "Next tick of its schedules" }),
    last_runs: z.array(lastRun).meta({ description: "Newest first" }),
  })
  .meta({ id: "WorkflowSummary" })

const param = z.object({
  name: z.string(),
  type: z.enum(PARAM_TYPES),
  required: z.boolean(),
  default: json,
  enum: z.array(z.unknown()).nullable(),
  description: z.string().nullable(),
  schema: object.nullable(),
})

export const graphTask = z.object({
  name: z.string(),
  executor: z.string(),
  depends_on: z.array(z.string()),
  group: z.string().nullable(),
  hook: z.string().nullable(),
  run_when: z.string(),
  if: z.string().nullable(),
  continue_on_error: z.boolean(),
  fan_out: z.string().nullable(),
  queue: z.string(),
  max_attempts: z.int(),
})

export const workflow = z
  .object({
    ...summary,
    hash: z.string(),
    params: z.array(param),
    tasks: z.array(graphTask),
    definition: z.string().meta({ description: "The deployed definition, YAML or JSON" }),
  })
  .meta({ id: "Workflow" })

export const version = z
  .object({
    version: z.int(),
    hash: z.string(),
    definition: z.string(),
    created_at: dateTime,
    created_by: z.string().nullable().meta({ description: "Name of the key or user that deployed it first" }),
  })
  .meta({ id: "WorkflowVersion" })

export const workflowList = list(workflowSummary)
export const versionList = list(version)

export const workflowParams = strictObject({ name: workflowName })
export const workflowQuery = strictObject({
  search: text(1, 128).optional().meta({ description: "Part of the name" }),
  tag: text(1, 128).optional(),
  ...page,
})
export const pageQuery = strictObject({ ...page })

export const validation = z
  .object({
    valid: z.boolean(),
    problems: z.array(problem),
    name: z.string().nullable(),
    tasks: z.array(z.string()),
  })
  .meta({ id: "Validation" })

export const backfillBody = strictObject({
  from: dayOrInstant.meta({ description: "First instant, or first day in the schedule's time zone" }),
  to: dayOrInstant.meta({ description: "Last instant, or last day in the schedule's time zone, which is included" }),
  plan: z.boolean().optional().meta({ description: "Only list the ticks" }),
  max_active_runs: z.int().min(1).max(1000).optional().meta({ description: "Maximum number of active runs of this backfill" }),
})

export const backfill = z
  .object({
    ticks: z.array(dateTime),
    runs: z.array(z.string()).meta({ description: "Ids of the created runs, in the order of the ticks" }),
  })
  .meta({ id: "Backfill" })

const MAX_TICKS = 200

export const schedule = z
  .object({
    id: z.int(),
    workflow: z.string(),
    ...scheduleSpec.shape,
    paused: z.boolean(),
    next_at: dateTime.nullable(),
    last_tick_at: dateTime.nullable(),
    next_ticks: z.array(dateTime).meta({ description: "Next ticks. Empty while paused" }),
    skipped_ticks: z
      .array(z.object({ tick: dateTime, reason: z.string() }))
      .meta({ description: "The last five ticks that created no run, newest first" }),
  })
  .meta({ id: "Schedule" })

/** A schedule of a function of a program, whose runs are those of the function. */
export const functionSchedule = strictObject({
  cron: z.string(),
  timezone: z.string().default("UTC"),
  catchup: scheduleSpec.shape.catchup.default("none"),
  overlap: scheduleSpec.shape.overlap.default("skip"),
  function: z.string().refine(isFunctionName, { error: FUNCTION_NAME_HINT }),
  durable: z.boolean().default(false).meta({ description: "The function is a durable function" }),
  params: object.default({}).meta({ description: "Input of the function" }),
  queue: queueName.default("default"),
  priority: priority.default(DEFAULT_PRIORITY),
  retry: retry
    .default({ max_attempts: 1, backoff: "exponential", base_delay: "1s", max_delay: "5m", jitter: false })
    .meta({ description: "Default: one attempt" }),
  timeout: span.nullish().meta({ description: "Limit of one attempt" }),
})

export const scheduleList = list(schedule)
export const scheduleQuery = strictObject({
  workflow: workflowName.optional(),
  ticks: z.int().min(1).max(MAX_TICKS).default(5).meta({ description: "Number of next ticks of each schedule" }),
  ...page,
})
