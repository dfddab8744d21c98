// Compiled workflows. Every definition (YAML, JSON, list form, TypeScript) compiles to this form; stores keep it, and the engine
// reads nothing else. Plain JSON: expressions stay CEL source.

import type { Json, JsonObject } from "../values/json.ts"

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
  "wait",
  "approval",
] as const

/** Executors whose work runs in a cluster under the name of the attempt. Only servers claim it; they start and watch it there. */
export const REMOTE_EXECUTORS: readonly string[] = ["kubernetes", "slurm", "cloudrun"]

/** Executors whose containers have artifacts only through `ork exec`, which stores them itself. */
export const EXEC_EXECUTORS: readonly string[] = ["kubernetes", "cloudrun"]

/** Value of `executor` for a group: its work is the nodes with this `group`. */
export const GROUP_EXECUTOR = "group"

/** A value with expressions in it. `expr` keeps the type of its result; `text` joins parts to a string. */
export type Template =
  | { lit: Json }
  | { expr: string }
  | { text: (string | { expr: string })[] }
  | { list: Template[] }
  | { map: { [key: string]: Template } }

/** The program that runs scripts without an interpreter of their own. It stops at the first command that fails. */
export const DEFAULT_INTERPRETER: readonly string[] = ["/bin/sh", "-e", "-c"]

/**
 * A command. In a shell command, values are environment variables (`vars`), so that none of them becomes syntax. `interpreter`: the program
 * and the arguments that precede the script, unless they are the default. `guarded`: arguments that begin with values, as indexes or as
 * lists of variables; a text that starts with `-` is rejected there.
 */
export type CommandSpec =
  | { shell: string; interpreter?: string[]; vars: { name: string; expr: string }[]; guarded?: string[][] }
  | { argv: Template[]; guarded?: number[] }

export type EnvValue = { value: Template } | { secret: string }

/** A secret inside an executor's fields; its value is inserted when the task is dispatched. */
export interface SecretField {
  /** Path of the value within the fields: `["headers", "authorization"]`. */
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

/** `enum`: one of the choices, whose types differ. */
export const PARAM_TYPES = ["string", "integer", "number", "boolean", "date", "array", "object", "enum"] as const
export type ParamType = (typeof PARAM_TYPES)[number]

export interface ParamSpec {
  name: string
  type: ParamType
  enum?: Json[]
  required: boolean
  default?: Json
  description?: string
  /** Remaining JSON Schema keywords (minimum, pattern, items, …). */
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

/** Starts a run after successes of other workflows: each success (`any`), or when every one of them has succeeded since (`all`). */
export interface AfterTrigger {
  after: string[]
  when: "all" | "any"
  params?: Template
}

/** Starts a run for each new file or object that fits the pattern. */
export interface PathTrigger {
  path: string
  everyMs: number
  params?: Template
}

export type TriggerSpec = AfterTrigger | PathTrigger

export interface NotifySpec {
  on: ("success" | "failure" | "cancel" | "deadline")[]
  webhook?: string
  slack?: string
  email?: string[]
  /** Texts of the e-mail; absent: the default. */
  subject?: Template
  body?: Template
}

/** An exit code, or a part of the error text. */
export type FailurePattern = number | string

export const OUTPUT_FORMATS = ["text", "lines", "json"] as const
export type OutputFormat = (typeof OUTPUT_FORMATS)[number]

/** A compiled task. Its index in `CompiledWorkflow.nodes` identifies it in every table. */
export interface Node {
  /** `process`; inside a group `group.task`; for a hook `on_failure.0`. */
  name: string
  /** Index of the group around the node; null at the top level. */
  group: number | null
  /** Set for hooks: they run after the run has closed and never change its status. */
  hook: HookEvent | null
  executor: string
  /** Direct upstream and downstream nodes, in the same group, ascending. */
  upstream: number[]
  downstream: number[]
  /** Nodes whose output or status the task reads: its direct upstream, and the tasks that its expressions name. */
  reads: number[]
  /** The nearest fanned group around the node, when its expressions read `parent`. */
  parent?: number
  rule: RunWhen
  if?: string
  /**
   * Fan-out. `foreach` renders to a list (a reference `discover.files` compiles to `{ expr: "tasks.discover.output.files" }`),
   * `parallel` to a count; with both, each item has that many instances. `reference` is the author's text, for messages.
   */
  fan?: { foreach?: Template; parallel?: Template; reference: string }
  /** Names an instance; absent: see `defaultLabel`. */
  label?: string
  /** The gate must evaluate the task before it may run: a rule other than all_success, `if`, fan-out, cache, concurrency_key, … */
  gated: boolean
  command?: CommandSpec
  /** For the executors node and python: the file (or module), and the function in it. */
  file?: string
  function?: string
  /** The Python program or virtualenv, as the author wrote it; absent: `python3` in PATH. */
  interpreter?: string
  /** Packages that Ork installs into a virtualenv of the task: lines for pip, or the name of a file with them. */
  requirements?: string | string[]
  image?: string
  /** Other fields of the executor (url, method, headers, body, job, workflow, duration, …). */
  fields: { [field: string]: Template }
  /** Secrets inside `fields`, where null holds their place. */
  secretFields?: SecretField[]
  /** The input of the task is the params of its run. */
  paramsAsInput?: true
  /** The task is a durable function, the only one of its workflow. */
  durable?: true
  /** The task's own `input`, always a map when present. */
  input?: Template
  env: { [name: string]: EnvValue }
  /** A file of the workflow with variables; those in `env` win. */
  envFile?: string
  workingDir?: Template
  runAs?: string
  scriptDir?: string
  resources?: { cpu?: number; memoryBytes?: number }
  retry: RetryPolicy
  lostRetries: number
  /** A failure does not fail the run, and counts as a success for the tasks below. */
  continueOnError?: true
  /** Failures after which the task is retried; absent: all. */
  retryOn?: FailurePattern[]
  /** Failures after which the task is skipped. */
  skipOn?: FailurePattern[]
  /**
   * Set for a task that waits until a condition holds: the time between two checks, and an expression over the response of a URL. A
   * command is checked by the executor `process`; all other conditions by the engine (executor `wait`).
   */
  wait?: { everyMs: number; until?: string }
  /** The task is skipped when it times out. */
  softFail?: true
  /** Messages about the task; absent: none. */
  notify?: NotifySpec[]
  /** Time from the start of the run after which a task that has not ended is late. */
  deadlineMs?: number
  /** null: no timeout. */
  timeoutMs: number | null
  startTimeoutMs: number | null
  /** Timeout of deferred work: the author's `timeout`; without one there is none. */
  deferTimeoutMs?: number
  /** Set when the task may defer its work. `hosts`: where polls may send secrets. */
  defer?: { hosts: string[] }
  concurrency?: number
  concurrencyKey?: string
  queue: string
  labels: string[]
  worker?: string
  /** null: the run's priority. */
  priority: number | null
  cache?: { key: string; ttlMs: number | null }
  /** JSON Schema of the output; names of `types` are resolved. */
  output?: JsonObject
  /** How standard output becomes the output; absent: its last line, if that is a JSON object or list. */
  outputFormat?: OutputFormat
  /** Patterns of the files that a successful attempt stores; renders to a text or a list of texts. */
  artifacts?: Template
  /** Nodes whose artifacts the task gets. */
  artifactsFrom?: number[]
}

export interface CompiledWorkflow {
  format: 1
  name: string
  description?: string
  tags: string[]
  params: ParamSpec[]
  /** Runs accept any params: those of a function in a program, which checks its input itself. */
  anyParams?: true
  schedules: ScheduleSpec[]
  /** Name of the secret that signs messages; two during a rotation. */
  webhook?: { secret: string | string[] }
  /** Absent without triggers besides schedules and the webhook. */
  triggers?: TriggerSpec[]
  /** A scheduled run waits for the success of the run of the previous tick. */
  dependsOnPast?: true
  notify: NotifySpec[]
  deadlineMs?: number
  concurrency?: number
  maxActiveRuns?: number
  timeoutMs?: number
  priority?: number
  include: string[]
  /** Hash of the files that were deployed with the definition (objects/bundles/bundles.ts); absent without files. */
  bundle?: string
  /** Folder of the definition on the server, for the policy; absent unless the server deployed it from its own folder. */
  folder?: string
  /** Top-level tasks, group members and hooks; a group precedes its members. */
  nodes: Node[]
}

export const DEFAULT_PRIORITY = 5

/** Returns the names of the secrets that the author of a task gave to it. */
export const secretNames = ({ env, secretFields = [] }: Node): string[] => {
  const inEnv = Object.values(env).flatMap((value) => ("secret" in value ? [value.secret] : []))
  return [...new Set([...inEnv, ...secretFields.map(({ secret }) => secret)])]
}

/** Returns the indexes of the top-level tasks: the rows of a new run. */
export const rootNodes = (workflow: CompiledWorkflow): number[] =>
  workflow.nodes.flatMap((node, i) => (node.group === null && node.hook === null ? [i] : []))

/** Returns the index of the node with this name; -1 without one. */
export const nodeIndexOf = ({ nodes }: Pick<CompiledWorkflow, "nodes">, name: string): number =>
  nodes.findIndex((node) => node.name === name)
