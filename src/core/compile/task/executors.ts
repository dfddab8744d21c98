// Fields that each executor accepts and requires, and its default timeouts. Checked at compile time, so that a task whose fields do not
// fit its executor is found before it runs.

import { BUILTIN_EXECUTORS } from "../../model/workflow.ts"

/** Fields that say what to run, and may contain expressions. */
export const TEMPLATE_FIELDS = [
  "url",
  "method",
  "headers",
  "body",
  "job",
  "workflow",
  "duration",
  "until",
  "path",
  "sql",
  "connection",
  "logical_date",
  "message",
  "default",
  "http",
  "docker",
  "kubernetes",
  "slurm",
  "cloudrun",
] as const

/** Fields of tasks that can write $ORK_OUTPUT or return a value. */
const DEFER_FIELDS = ["defer", "defer_hosts"] as const

/** Fields of tasks that have a working folder. */
const ARTIFACT_FIELDS = ["artifacts", "artifacts_from"] as const

/** Fields of tasks that run a command or a function of a file. */
const WORK_FIELDS = [...DEFER_FIELDS, ...ARTIFACT_FIELDS] as const

/** Fields that select the Python of a task and its packages. */
const PYTHON_FIELDS = ["interpreter", "requirements"] as const

const WAIT_FIELDS = ["every", "soft_fail"] as const

/** All fields that say what to run. The other fields of a task suit every executor. */
export const RUN_FIELDS = [
  "command",
  "shell",
  "file",
  "function",
  "image",
  ...PYTHON_FIELDS,
  ...TEMPLATE_FIELDS,
  ...WORK_FIELDS,
  ...WAIT_FIELDS,
] as const
export type RunField = (typeof RUN_FIELDS)[number]

/** A `wait` task has exactly one of these fields: what it waits for. */
export const WAIT_TARGETS = ["command", "url", "path", "sql", "workflow"] as const
export type WaitTarget = (typeof WAIT_TARGETS)[number]

/** Further fields of a `wait` task, each with the target that it belongs to. */
export const TARGET_OF_OPTION = {
  shell: "command",
  method: "url",
  headers: "url",
  body: "url",
  http: "url",
  until: "url",
  connection: "sql",
  logical_date: "workflow",
} as const satisfies { [field in RunField]?: WaitTarget }

export interface ExecutorRule {
  requires: readonly RunField[]
  /** Includes the required fields. */
  accepts: readonly RunField[]
  /** Default in milliseconds; null: no timeout. */
  timeoutMs: number | null
  startTimeoutMs: number | null
}

const HOUR = 3_600_000
const DAY = 24 * HOUR
const FIVE_MINUTES = 300_000

const rule = (
  requires: RunField[],
  optional: RunField[],
  timeoutMs: number | null = HOUR,
  startTimeoutMs: number | null = FIVE_MINUTES,
): ExecutorRule => ({ requires, accepts: [...requires, ...optional], timeoutMs, startTimeoutMs })

const EXECUTOR_RULES = {
  process: rule(["command"], ["shell", ...PYTHON_FIELDS, ...WORK_FIELDS]),
  node: rule(["file"], ["function", ...WORK_FIELDS]),
  python: rule(["file"], ["function", ...PYTHON_FIELDS, ...WORK_FIELDS]),
  http: rule(["url"], ["method", "headers", "body", "http"]),
  docker: rule(["image"], ["command", "shell", "file", "function", "docker", ...WORK_FIELDS]),
  kubernetes: rule(["image"], ["command", "shell", "file", "function", "kubernetes", ...WORK_FIELDS]),
  slurm: rule([], ["command", "shell", "file", "function", "slurm", ...WORK_FIELDS], HOUR, null),
  cloudrun: rule(["job"], ["command", "shell", "file", "function", "cloudrun", ...WORK_FIELDS]),
  workflow: rule(["workflow"], [], null, null),
  sleep: rule([], ["duration", "until"], null, null),
  wait: rule(
    [],
    [...WAIT_TARGETS, ...(Object.keys(TARGET_OF_OPTION) as (keyof typeof TARGET_OF_OPTION)[]), ...WAIT_FIELDS],
    DAY,
  ),
  approval: rule([], ["message", "default"], null, null),
} as const satisfies Record<(typeof BUILTIN_EXECUTORS)[number], ExecutorRule>

/** Rule of a registered function, which has its input only. */
export const FUNCTION_RULE: ExecutorRule = rule([], [...DEFER_FIELDS])

export const GROUP_RULE: ExecutorRule = rule([], [], null, null)

/** Rule of an executor that does not exist: it accepts all fields, because the executor is the problem. */
export const UNKNOWN_RULE: ExecutorRule = rule([], [...RUN_FIELDS])

export const builtinRule = (name: string): ExecutorRule | undefined =>
  Object.hasOwn(EXECUTOR_RULES, name) ? EXECUTOR_RULES[name as keyof typeof EXECUTOR_RULES] : undefined

export const executorsAccepting = (field: RunField): string[] =>
  BUILTIN_EXECUTORS.filter((name) => EXECUTOR_RULES[name].accepts.includes(field))

/** Fields of a group. All others belong to its tasks. */
export const GROUP_FIELDS: ReadonlySet<string> = new Set([
  "description",
  "tasks",
  "depends_on",
  "run_when",
  "if",
  "continue_on_error",
  "foreach",
  "parallel",
  "concurrency",
  "priority",
  "env",
  "timeout",
  "notify",
  "deadline",
])

const MEANT_FOR_TASKS = ["timeout", "notify", "deadline"]

/** Fields of `defaults` that apply to groups. */
export const GROUP_DEFAULTS: ReadonlySet<string> = new Set(
  [...GROUP_FIELDS].filter((field) => !MEANT_FOR_TASKS.includes(field)),
)
