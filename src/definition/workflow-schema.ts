// Schemas of a workflow definition: types, ranges, unknown fields. The compiler checks the rest (graph, expressions, durations, names).
// The static types are in core/model/definition.ts.

import { z } from "zod"
import { SHELL_NAMES } from "../core/compile/code/script-interpreter.ts"
import type { TaskDefinition, WorkflowDefinition } from "../core/model/definition.ts"
import { RUN_WHEN } from "../core/model/workflow.ts"
import {
  cloudrunFields,
  dockerFields,
  headersField,
  httpFields,
  kubernetesFields,
  slurmFields,
  urlField,
} from "./executor-fields.ts"
import {
  CACHE_FIELDS,
  NOTIFY_FIELDS,
  RESOURCE_FIELDS,
  RETRY_FIELDS,
  SCHEDULE_FIELDS,
  SECRET_FIELDS,
  TASK_FIELDS,
  TRIGGER_FIELDS,
  WORKFLOW_FIELDS,
} from "./field-descriptions.ts"
import {
  count,
  cpu,
  describedObject,
  describedShape,
  duration,
  either,
  json,
  memory,
  object,
  record,
  strictObject,
  text,
} from "./schema-parts.ts"

/** A host name or an address, optionally with a port; `*.` at the start stands for all names below. */
const DEFER_HOST = /^(?:(?:\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/

const priority = z.int().min(1).max(10)

const env = record(
  either("a text, a number, true, false, null or { secret: NAME }", [
    text,
    z.number(),
    z.boolean(),
    z.null(),
    describedObject({ secret: text }, { secret: SECRET_FIELDS.secret }),
  ]),
)

const retry = describedObject(
  {
    max_attempts: z.int().min(1).max(100).optional(),
    backoff: z.enum(["fixed", "linear", "exponential"]).optional(),
    base_delay: duration.optional(),
    max_delay: duration.optional(),
    jitter: z.boolean().optional(),
  },
  RETRY_FIELDS,
)

const failurePatterns = z
  .array(either("an exit code from 1 to 255, or a part of the error text", [z.int().min(1).max(255), text.min(1)]))
  .min(1)
  .max(100)

const notify = describedObject(
  {
    on: z.array(z.enum(["success", "failure", "cancel", "deadline"])).min(1),
    webhook: text.optional(),
    slack: text.optional(),
    email: either("an e-mail address or a list of them", [text, z.array(text).min(1).max(50)]).optional(),
    subject: text.max(1000).optional(),
    body: text.max(100_000).optional(),
  },
  NOTIFY_FIELDS,
)

const notifications = either("a notification or a list of them", [notify, z.array(notify)]).optional()

const taskShape = {
  description: text.optional(),
  executor: text.optional(),
  command: either("a text (for the shell) or a list of texts (program and arguments)", [text, z.array(text)]).optional(),
  shell: either("sh, bash, python, node, or a list: a program and its arguments", [
    z.enum(SHELL_NAMES),
    z.array(text).min(1),
  ]).optional(),
  file: text.optional(),
  function: text.optional(),
  interpreter: text.min(1).optional(),
  requirements: either("the name of a file, or a list of requirements such as `pandas==2.3.0`", [
    text.min(1),
    z
      .array(text.min(1).regex(/^[^\r\n]*$/, "must be one line"))
      .min(1)
      .max(1000),
  ]).optional(),
  url: urlField.optional(),
  method: text.optional(),
  headers: headersField.optional(),
  body: json.optional(),
  image: text.optional(),
  job: text.optional(),
  workflow: text.optional(),
  duration: duration.optional(),
  until: text.optional(),
  path: text.optional(),
  sql: text.optional(),
  connection: text.optional(),
  logical_date: text.optional(),
  every: duration.optional(),
  soft_fail: z.boolean().optional(),
  message: text.optional(),
  default: z.enum(["approve", "reject"]).optional(),
  http: httpFields.optional(),
  docker: dockerFields.optional(),
  kubernetes: kubernetesFields.optional(),
  slurm: slurmFields.optional(),
  cloudrun: cloudrunFields.optional(),
  depends_on: z.array(text).optional(),
  run_when: z.enum(RUN_WHEN).optional(),
  if: either("an expression, true or false", [text, z.boolean()]).optional(),
  foreach: json.optional(),
  parallel: either("a whole number, a reference or an expression", [z.int().min(0), text]).optional(),
  label: text.optional(),
  concurrency: count.optional(),
  concurrency_key: text.optional(),
  cache: describedObject({ key: text, ttl: duration.optional() }, CACHE_FIELDS).optional(),
  input: object.optional(),
  env: env.optional(),
  env_file: text.min(1).optional(),
  working_dir: text.optional(),
  run_as: text.optional(),
  script_dir: text.optional(),
  resources: describedObject({ cpu: cpu.optional(), memory: memory.optional() }, RESOURCE_FIELDS).optional(),
  output: either("text, lines, json, a JSON Schema or the name of one under `types`", [text, object]).optional(),
  artifacts: either("a pattern of files, or a list of patterns", [text, z.array(text).min(1).max(100)]).optional(),
  artifacts_from: either("the name of a task, or a list of names", [text, z.array(text).min(1).max(100)]).optional(),
  defer: z.boolean().optional(),
  defer_hosts: z
    .array(text.regex(DEFER_HOST, 'must be a host such as "api.example.com", "*.example.com" or "localhost:8080"'))
    .max(100)
    .optional(),
  allow_option_values: z.boolean().optional(),
  continue_on_error: z.boolean().optional(),
  retry_on: failurePatterns.optional(),
  skip_on: failurePatterns.optional(),
  retries: z.int().min(0).max(99).optional(),
  retry: retry.optional(),
  lost_retries: z.int().min(0).max(1000).optional(),
  timeout: duration.optional(),
  start_timeout: duration.optional(),
  notify: notifications,
  deadline: duration.optional(),
  queue: text.optional(),
  labels: z
    .array(text.regex(/^[A-Za-z0-9_.=/-]{1,64}$/, 'must have at most 64 letters, digits, "_", ".", "=", "/" and "-"'))
    .optional(),
  worker: text.optional(),
  priority: priority.optional(),
} satisfies Record<Exclude<keyof TaskDefinition, "tasks" | "on_failure">, z.ZodType>

const taskFields = describedShape(taskShape, TASK_FIELDS)

const { depends_on: _, label: __, artifacts_from: ___, ...defaultFields } = taskFields

export const taskSchema: z.ZodType = strictObject({
  ...taskFields,
  get tasks() {
    return z.record(z.string(), taskSchema).optional().meta({ description: TASK_FIELDS.tasks.about })
  },
  get on_failure() {
    return either("a list of hooks, run or skip", [z.array(taskSchema), z.enum(["run", "skip"])])
      .optional()
      .meta({ description: TASK_FIELDS.on_failure.about })
  },
})

const schedule = either("a cron expression, a schedule object, or a list of them", [
  text,
  describedObject(
    {
      cron: text.optional(),
      every: duration.optional(),
      timezone: text.optional(),
      catchup: z.enum(["none", "latest", "all"]).optional(),
      overlap: z.enum(["allow", "skip", "queue", "cancel"]).optional(),
      jitter: duration.optional(),
      start: text.optional(),
      end: text.optional(),
      params: object.optional(),
    },
    SCHEDULE_FIELDS,
  ),
])

const trigger = describedObject(
  {
    after: either("the name of a workflow or a list of names", [text, z.array(text).min(1).max(100)]).optional(),
    when: z.enum(["all", "any"]).optional(),
    path: text.max(1000).optional(),
    every: duration.optional(),
    params: object.optional(),
  },
  TRIGGER_FIELDS,
)

const hook = z.array(taskSchema).optional()

export const workflowSchema = describedObject(
  {
    name: text,
    description: text.optional(),
    tags: z.array(text).optional(),
    types: record(object).optional(),
    params: object.optional(),
    schedule: either("a cron expression, a schedule object, or a list of them", [
      ...schedule.def.options,
      z.array(schedule),
    ]).optional(),
    webhook: strictObject({
      secret: z
        .union([text, z.array(text).min(1).max(2)], { error: "must be the name of a secret, or a list of two" })
        .meta({ description: "name of the secret that signs messages; two names during a rotation" }),
    }).optional(),
    triggers: either("a trigger or a list of them", [trigger, z.array(trigger)]).optional(),
    depends_on_past: z.boolean().optional(),
    notify: notifications,
    deadline: duration.optional(),
    concurrency: count.optional(),
    max_active_runs: count.optional(),
    timeout: duration.optional(),
    priority: priority.optional(),
    env: env.optional(),
    include: z.array(text).optional(),
    defaults: strictObject(defaultFields).optional(),
    on_success: hook,
    on_failure: hook,
    on_cancel: hook,
    on_exit: hook,
    tasks: record(taskSchema),
  } satisfies Record<keyof WorkflowDefinition, z.ZodType>,
  WORKFLOW_FIELDS,
)
