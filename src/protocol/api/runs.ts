// Schemas of runs and tasks in requests and responses.

import { z } from "zod"
import { ATTEMPT_STATES, RUN_STATUSES, TASK_STATUSES } from "../../core/model/status.ts"
import type { WaitingView } from "../../core/model/waiting-on.ts"
import {
  dateTime,
  instancePath,
  instant,
  json,
  list,
  object,
  page,
  priority,
  runReference,
  strictObject,
  taskName,
  text,
  workflowName,
} from "./common.ts"

export const TRIGGERS = ["manual", "schedule", "webhook", "backfill", "workflow", "after", "path"] as const

const count = z.int().min(0)
export const counts = z.object(
  Object.fromEntries(TASK_STATUSES.map((status) => [status, count])) as Record<(typeof TASK_STATUSES)[number], typeof count>,
)

const cause = z
  .union([z.object({ runs: z.array(z.object({ id: z.string(), workflow: z.string() })) }), z.object({ path: z.string() })])
  .meta({ id: "Cause", description: "The successful runs of other workflows that the run followed, or its file or object" })

export const run = z
  .object({
    id: z.string(),
    workflow: z.string(),
    number: z.int().meta({ description: "Number within the workflow: the run is also `WORKFLOW#NUMBER`" }),
    version: z.int(),
    status: z.enum(RUN_STATUSES),
    paused: z.boolean(),
    trigger: z.string(),
    cause: cause.nullable().meta({ description: "What a trigger created the run for. null: no trigger did" }),
    params: object,
    priority,
    logical_date: dateTime.nullable(),
    created_at: dateTime,
    created_by: z
      .string()
      .nullable()
      .meta({ description: "Name of the key or user that started it. null: a schedule, a webhook, another run or `ork run`" }),
    started_at: dateTime.nullable(),
    finished_at: dateTime.nullable(),
    idle_ms: z
      .int()
      .meta({ description: "Time between its end and its retries: its duration is finished_at - started_at - idle_ms" }),
    error: z.string().nullable(),
    parent: z
      .object({ run_id: z.string(), task: z.string() })
      .nullable()
      .meta({ description: "Task of which this is the child run" }),
    tasks: counts,
  })
  .meta({ id: "Run" })

const usage = z
  .object({
    max_rss_bytes: z.number().nullable(),
    cpu_user_ms: z.number().nullable(),
    cpu_system_ms: z.number().nullable(),
    signal: z.string().nullable(),
  })
  .meta({ id: "Usage" })

const ending = {
  worker: z.string().nullable(),
  external_id: z.string().nullable(),
  exit_code: z.int().nullable(),
  error: z.string().nullable(),
  usage: usage.nullable(),
  dispatched_at: dateTime.nullable(),
  started_at: dateTime.nullable(),
  finished_at: dateTime.nullable(),
}

const attempt = z
  .object({
    id: z.string(),
    attempt: z.int().min(1),
    status: z.enum([...ATTEMPT_STATES, "dispatched", "running"]),
    ...ending,
  })
  .meta({ id: "Attempt" })

export const waiting = z
  .object({
    kind: z.enum(["sleep", "approval", "workflow", "poll", "callback", "resume", "condition"]),
    message: z.string().optional(),
    default: z.enum(["approve", "reject"]).optional(),
    workflow: z.string().optional(),
    run_id: z.string().optional(),
    url: z.string().optional(),
    condition: z.string().optional().meta({ description: "What the task waits for" }),
    every_ms: z.number().optional().meta({ description: "Time between two checks of the condition" }),
    last: z.string().optional().meta({ description: "What the last check of the condition saw" }),
    until: dateTime
      .nullable()
      .meta({ description: "Time at which the task resumes by itself, or its condition is checked again. null: never" }),
  })
  .meta({ id: "Waiting" })

export const progress = z.object({ fraction: z.number().nullable(), details: z.unknown() }).meta({ id: "Progress" })

export const outputObject = z.object({ key: z.string(), bytes: z.int() })

const work = z
  .object({
    executor: z.string(),
    command: z.union([z.string(), z.array(z.unknown())]).nullable(),
    file: z.string().nullable(),
    function: z.string().nullable(),
    image: z.string().nullable(),
    fields: object.meta({ description: "Other fields of the executor" }),
    timeout_ms: z.number().nullable(),
    deadline_ms: z.number().nullable().meta({ description: "Time from the start of the run after which the task is late" }),
    cpu: z.number().nullable(),
    memory_bytes: z.number().nullable(),
    artifacts: z.array(z.string()).nullable().meta({ description: "Patterns of the files that it stores" }),
  })
  .meta({ id: "Work", description: "The work of the task as in its definition" })

export const label = z
  .string()
  .nullable()
  .meta({ description: "Label of the instance; inside groups with the labels of their instances before it: `eu / rome.csv`" })

export const task = z
  .object({
    id: z.string(),
    run_id: z.string(),
    name: z.string(),
    index: z.int().nullable().meta({ description: "null without fan-out" }),
    path: z.string(),
    label,
    status: z.enum(TASK_STATUSES),
    attempt: z.int().min(0),
    max_attempts: z.int(),
    retries_left: z.int(),
    queue: z.string(),
    priority,
    command: z
      .union([z.string(), z.array(z.unknown())])
      .nullable()
      .meta({ description: "As in the definition. null: the task has no command" }),
    input: z.unknown().meta({
      description:
        "null before the first attempt. In lists, `{ omitted_bytes }` replaces outputs of upstream tasks above 16 KiB",
    }),
    output: json,
    output_object: outputObject.nullable().meta({ description: "Replaces `output` when the output is large" }),
    available_at: dateTime.nullable(),
    waiting: waiting.nullable().meta({ description: "What the task waits on, without a slot" }),
    progress: progress.nullable(),
    ...ending,
    attempts: z.array(attempt),
    work: work.optional().meta({ description: "Missing in lists" }),
    warning: z.string().nullable().optional().meta({
      description: "Why the output is probably not what the author meant; null: no warning. Missing in lists",
    }),
  })
  .meta({ id: "Task" })

waiting satisfies z.ZodType<WaitingView>

export const runList = list(run)
export const taskList = list(task)

export const runParams = strictObject({ id: runReference })
export const taskParams = strictObject({ id: runReference, name: taskName })

export const runQuery = strictObject({
  workflow: workflowName.optional(),
  status: z.enum(RUN_STATUSES).optional(),
  trigger: z.enum(TRIGGERS).optional(),
  created_after: instant.optional().meta({ description: "Created at this instant or later" }),
  created_before: instant.optional().meta({ description: "Created before this instant" }),
  ...page,
})

export const taskQuery = strictObject({
  name: taskName.optional().meta({ description: "Only instances of this task" }),
  ...page,
})

/** Fields that select an instance of a fan-out. */
export const instanceQuery = {
  index: z.int().min(0).optional().meta({ description: "Index of the instance of a fan-out" }),
  path: instancePath.optional().meta({ description: "Path of the instance inside groups: `1.2`" }),
  label: text(1, 1000).optional().meta({ description: "Label of the instance, if no other instance of the task has it" }),
}

export const newRun = strictObject({
  params: object.optional(),
  priority: priority.nullish(),
  idempotency_key: text(1, 255).nullish().meta({ description: "A repeated key of the workflow returns the first run" }),
  logical_date: instant.nullish(),
})

export const retryBody = strictObject({
  from: taskName.optional().meta({ description: "Retry this task and everything downstream of it, in any state" }),
  step: strictObject({
    name: text(1, 1000),
    occurrence: z.int().min(0).default(0).meta({ description: "Counts the steps of this name, from 0" }),
  })
    .optional()
    .meta({ description: "Retry a durable function from this step: it and the steps that began after it run again" }),
  plan: z.boolean().optional().meta({ description: "Only return the tasks or steps that would run" }),
})

export const retryTaskBody = strictObject({ plan: retryBody.shape.plan })

export const retryPlan = z
  .object({ again: z.array(z.string()), kept: z.array(z.string()) })
  .meta({ id: "RetryPlan", description: "Names of the tasks, or steps, that run again and of those that are kept" })

export const overrideBody = strictObject({
  status: z.enum(["success", "failed"]),
  reason: text(1, 1000),
})

export const approvalParams = strictObject({
  id: runReference,
  name: text(1, 255).meta({ description: "A task, or a step of a durable function" }),
})

export const approvalBody = strictObject({
  comment: text(1, 10_000).optional(),
  ...instanceQuery,
})

export const callbackParams = strictObject({ token: z.string().max(200) })

export const callbackBody = strictObject({
  status: z.enum(["success", "failed"]).optional().meta({ description: "Default: success" }),
  output: json.optional(),
  error: text(1, 10_000).optional(),
})

export const explanation = z
  .object({ task: z.string().nullable(), path: z.string(), status: z.string(), sentence: z.string() })
  .meta({ id: "Explanation" })

export const explanations = z.object({ items: z.array(explanation) })
export const explainQuery = strictObject({ task: taskName.optional() })
