// What each executor takes and needs, and its default timeouts. A task whose fields do not fit its executor is a mistake that
// would otherwise only show when it runs.

import { BUILTIN_EXECUTORS } from "../model/workflow.ts"

/** Fields that say what to run, and whose values may hold expressions anywhere. */
export const TEMPLATE_FIELDS = [
  "url",
  "method",
  "headers",
  "body",
  "job",
  "workflow",
  "duration",
  "until",
  "message",
  "default",
  "http",
  "docker",
  "kubernetes",
  "slurm",
  "cloudrun",
] as const

/** All that say what to run; every other task field suits every executor. */
export const RUN_FIELDS = ["command", "file", "function", "image", ...TEMPLATE_FIELDS] as const
export type RunField = (typeof RUN_FIELDS)[number]

export interface ExecutorRule {
  takes: readonly RunField[]
  needs: readonly RunField[]
  /** Milliseconds; null: none. */
  timeoutMs: number | null
  startTimeoutMs: number | null
}

const HOUR = 3_600_000
const START = 300_000

const rule = (
  needs: RunField[],
  takes: RunField[],
  timeoutMs: number | null = HOUR,
  startTimeoutMs: number | null = START,
) => ({
  takes: [...needs, ...takes],
  needs,
  timeoutMs,
  startTimeoutMs,
})

const EXECUTOR_RULES = {
  process: rule(["command"], []),
  node: rule(["file"], ["function"]),
  python: rule(["file"], ["function"]),
  http: rule(["url"], ["method", "headers", "body", "http"]),
  docker: rule(["image"], ["command", "docker"]),
  kubernetes: rule(["image"], ["command", "kubernetes"]),
  slurm: rule(["command"], ["slurm"], HOUR, null),
  cloudrun: rule(["job"], ["command", "cloudrun"]),
  workflow: rule(["workflow"], [], null, null),
  sleep: rule([], ["duration", "until"], null, null),
  approval: rule([], ["message", "default"], null, null),
} as const satisfies Record<(typeof BUILTIN_EXECUTORS)[number], ExecutorRule>

/** A registered function: all that it takes is its input. */
export const FUNCTION_RULE: ExecutorRule = rule([], [])

/** There is no such executor, which is told once. */
export const UNKNOWN_RULE: ExecutorRule = rule([], [...RUN_FIELDS])

export const builtinRule = (name: string): ExecutorRule | undefined =>
  Object.hasOwn(EXECUTOR_RULES, name) ? EXECUTOR_RULES[name as keyof typeof EXECUTOR_RULES] : undefined

/** The executors that take this field: for the hint when another one was given it. */
export const executorsTaking = (field: RunField): string[] =>
  BUILTIN_EXECUTORS.filter((name) => (EXECUTOR_RULES[name].takes as readonly RunField[]).includes(field))

/** What a group may say; the rest belongs to its tasks. */
export const GROUP_FIELDS: ReadonlySet<string> = new Set([
  "description",
  "tasks",
  "depends_on",
  "run_when",
  "if",
  "foreach",
  "parallel",
  "concurrency",
  "priority",
  "env",
  "timeout",
])

/** What a group takes of `defaults`: a time there is meant for the tasks in it. */
export const GROUP_DEFAULTS: ReadonlySet<string> = new Set([...GROUP_FIELDS].filter((field) => field !== "timeout"))
