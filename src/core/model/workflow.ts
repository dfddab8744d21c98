// The compiled form of a workflow: what every definition (YAML, JSON, list form, TypeScript) is turned into, what the
// stores keep, and all that the engine knows. Plain JSON; expressions are kept as their CEL source.

import type { Json, JsonObject } from "./json.ts"

export const RUN_WHEN = ["all_success", "all_done", "any_failed", "all_failed", "any_success", "none_failed"] as const
export type RunWhen = (typeof RUN_WHEN)[number]

export const HOOK_EVENTS = ["on_success", "on_failure", "on_cancel", "on_exit"] as const
export type HookEvent = (typeof HOOK_EVENTS)[number]

export const BUILTIN_EXECUTORS = [
  "process",
  "node",
  "python",
  "http",
  "docker",
  "kubernetes",
  "slurm",
  "cloudrun",
  "workflow",
  "sleep",
  "approval",
] as const

/** Their work lives elsewhere, named after the attempt: servers start and watch it, beside what runs on their own machine. */
export const REMOTE_EXECUTORS: readonly string[] = ["kubernetes", "slurm", "cloudrun"]

/** What `executor` says for a group: its work are the nodes whose `group` it is. */
export const GROUP_EXECUTOR = "group"

/** A value with expressions in it. `expr` keeps the type of its result; `text` joins parts to a string. */
export type Template =
  | { lit: Json }
  | { expr: string }
  | { text: (string | { expr: string })[] }
  | { list: Template[] }
  | { map: { [key: string]: Template } }

/** A shell command: `script` refers to its values as the environment variables in `vars`, so none becomes syntax. */
export type CommandSpec = { shell: string; vars: { name: string; expr: string }[] } | { argv: Template[] }

export type EnvValue = { value: Template } | { secret: string }

/** A secret among the executor's fields: where its value goes when the task is dispatched. */
export interface SecretField {
  /** `["headers", "authorization"]`. */
  at: string[]
  secret: string
  prefix?: string
}

export interface RetryPolicy {
  maxAttempts: number
  backoff: "fixed" | "linear" | "exponential"
  baseDelayMs: number
  maxDelayMs: number
  jitter: boolean
}

export const PARAM_TYPES = ["string", "integer", "number", "boolean", "date", "array", "object"] as const
export type ParamType = (typeof PARAM_TYPES)[number]

export interface ParamSpec {
  name: string
  type: ParamType
  enum?: Json[]
  required: boolean
  default?: Json
  description?: string
  /** The remaining JSON Schema keywords (minimum, pattern, items, …), checked as they stand. */
  schema?: JsonObject
}

export interface ScheduleSpec {
  cron: string
  timezone: string
  catchup: "none" | "latest" | "all"
  overlap: "allow" | "skip" | "queue" | "cancel"
  jitterMs?: number
  start?: string
  end?: string
  params?: Template
}

export interface NotifySpec {
  on: ("success" | "failure" | "cancel" | "deadline")[]
  webhook?: string
  slack?: string
}

/** One task of the graph. Its place in `CompiledWorkflow.nodes` is its number in every table. */
export interface Node {
  /** `process`; inside a group `group.task`; a hook `on_failure.0`. */
  name: string
  /** The group node that it lies in, or null. */
  group: number | null
  /** Set for hook tasks: they run after the run has ended and never change it. */
  hook: HookEvent | null
  executor: string
  /** Direct upstream and downstream nodes, in the same scope, ascending. */
  upstream: number[]
  downstream: number[]
  /** Nodes whose output or status its input and expressions read: direct upstream and what expressions name. */
  reads: number[]
  /** The nearest fanned group around it, when its expressions read `parent`. */
  parent?: number
  rule: RunWhen
  if?: string
  /**
   * `foreach`: a template that gives a list (a reference `discover.files` is compiled to `{ expr:
   * "tasks.discover.output.files" }`). `parallel`: one that gives a count. Both: N instances per item. `reference` is the
   * text that the user wrote, for messages.
   */
  fan?: { foreach?: Template; parallel?: Template; reference: string }
  /** The engine must look before it may run: a rule other than all_success, `if`, fan-out, cache, concurrency_key, … */
  gated: boolean
  command?: CommandSpec
  /** node and python: the file (or module) and the function. */
  file?: string
  function?: string
  image?: string
  /** Everything else that the executor takes (url, method, headers, body, job, workflow, duration, …), by field. */
  fields: { [field: string]: Template }
  /** Secrets that belong into `fields`, where null stands for them. */
  secretFields?: SecretField[]
  /** The task's own `input`, always a map when present. */
  input?: Template
  env: { [name: string]: EnvValue }
  workingDir?: Template
  runAs?: string
  scriptDir?: string
  resources?: { cpu?: number; memoryBytes?: number }
  retry: RetryPolicy
  lostRetries: number
  /** null: none. */
  timeoutMs: number | null
  startTimeoutMs: number | null
  /** For work that an attempt defers: the timeout that somebody set, none by default. */
  deferTimeoutMs?: number
  concurrency?: number
  concurrencyKey?: string
  queue: string
  labels: string[]
  worker?: string
  /** The task's own, else null: then the run's. */
  priority: number | null
  cache?: { key: string; ttlMs: number | null }
  /** A JSON Schema that the output must fit; names under `types` are resolved. */
  output?: JsonObject
}

export interface CompiledWorkflow {
  format: 1
  name: string
  description?: string
  tags: string[]
  params: ParamSpec[]
  schedules: ScheduleSpec[]
  webhook?: { secret: string }
  notify: NotifySpec[]
  deadlineMs?: number
  concurrency?: number
  maxActiveRuns?: number
  timeoutMs?: number
  priority?: number
  include: string[]
  /** The hash of the files that came with it (objects/bundles.ts); none: it has no files of its own. */
  bundle?: string
  /** Top-level tasks, group members and hooks in one list. */
  nodes: Node[]
}

export const DEFAULT_PRIORITY = 5

/** Node numbers of the top-level tasks: what a run consists of when it starts. */
export const rootNodes = (workflow: CompiledWorkflow): number[] =>
  workflow.nodes.flatMap((node, i) => (node.group === null && node.hook === null ? [i] : []))
