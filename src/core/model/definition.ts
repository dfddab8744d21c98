// Types of a workflow definition as its author writes it (YAML, JSON, `graph` of the SDK). definition/workflow-schema.ts validates the
// shape, `compile` turns it into a CompiledWorkflow. Field names are those of the file, hence snake_case.

import type { Json, JsonObject } from "../values/json.ts"
import type { FailurePattern, HookEvent, RunWhen } from "./workflow.ts"

/** Seconds, or "90s", "10m", "2h", "1d", "500ms". */
export type Duration = number | string

export type EnvDefinition = { [name: string]: string | number | boolean | null | { secret: string } }

export interface RetryDefinition {
  max_attempts?: number
  backoff?: "fixed" | "linear" | "exponential"
  base_delay?: Duration
  max_delay?: Duration
  jitter?: boolean
}

/** A secret; `prefix` is put before its value, such as `Bearer `. */
export type SecretDefinition = { secret: string; prefix?: string }

export type HttpDefinition = {
  /** Statuses that count as success: 200, "2xx". */
  expect?: (number | string)[]
  /** Further statuses after which the request is retried. */
  retry_on?: (number | string)[]
  redirects?: number
  max_body?: number | string
}

export type DockerDefinition = {
  pull?: "missing" | "always" | "never"
  platform?: string
  /** `source:target[:ro]`. A source with a slash is a folder or file on the container engine's machine, any other a volume. */
  mounts?: string[]
  tmpfs?: string[]
  /** Mount point of the run's folder; false: not mounted. */
  work?: string | false
  workdir?: string
  entrypoint?: string[]
  user?: string
  network?: string
  hosts?: { [name: string]: string }
  read_only?: boolean
  privileged?: boolean
  cap_add?: string[]
  pids?: number
  shm_size?: number | string
  gpus?: number | "all"
}

/** Options of the Job and the pod of a `kubernetes` task. Lists of objects and `affinity` are passed to Kubernetes unchanged. */
export type KubernetesDefinition = {
  namespace?: string
  service_account?: string
  /** Mounts the token of the service account, so that the pod may call the cluster's API. */
  automount_token?: boolean
  /** Runs the command through `ork exec`, which the image must contain. */
  exec?: boolean
  entrypoint?: string[]
  workdir?: string
  image_pull_policy?: "Always" | "IfNotPresent" | "Never"
  image_pull_secrets?: string[]
  node_selector?: { [label: string]: string }
  tolerations?: JsonObject[]
  affinity?: JsonObject
  priority_class?: string
  runtime_class?: string
  labels?: { [label: string]: string }
  annotations?: { [name: string]: string }
  volumes?: JsonObject[]
  volume_mounts?: JsonObject[]
  env_from?: JsonObject[]
  /** Added to what `resources` requests; the same resource here wins. */
  requests?: { [resource: string]: string | number }
  limits?: { [resource: string]: string | number }
  security?: KubernetesSecurity
  /** How long the cluster keeps the finished Job. */
  ttl?: Duration
}

export type KubernetesSecurity = {
  /** `image`: the user of the image. */
  run_as_user?: number | "image"
  run_as_group?: number | "image"
  run_as_non_root?: boolean
  fs_group?: number
  allow_privilege_escalation?: boolean
  privileged?: boolean
  read_only_root?: boolean
  /** Capabilities to add; all others are dropped. */
  capabilities?: string[]
  seccomp?: "RuntimeDefault" | "Unconfined"
}

export type CloudrunDefinition = {
  project?: string
  region?: string
  /** Container of the job to configure, when it has several. */
  container?: string
  /** Replaces the job's arguments. Without `exec`, `command` does the same. */
  args?: string[]
  /** Runs the command through `ork exec`, which the image must contain. */
  exec?: boolean
}

export type SlurmDefinition = {
  partition?: string
  account?: string
  qos?: string
  /** Time limit of the cluster; without it, that of the partition. */
  time?: Duration
  gres?: string
  constraint?: string
  nodes?: number
  tasks?: number
  /** Further options of sbatch, passed unchanged. */
  options?: string[]
}

export interface TaskDefinition {
  description?: string
  executor?: string
  // The work of the task.
  command?: string | string[]
  /** How a text `command` runs; a list is a program with arguments, after which the script follows. */
  shell?: "sh" | "bash" | "python" | "node" | string[]
  file?: string
  function?: string
  /** A Python program or virtualenv: a path, or the name of a program in PATH. */
  interpreter?: string
  /** Lines of pip's requirements, or the name of a file with them. */
  requirements?: string | string[]
  url?: string | SecretDefinition
  method?: string
  headers?: { [name: string]: string | number | boolean | null | SecretDefinition }
  body?: Json
  image?: string
  job?: string
  workflow?: string
  duration?: Duration
  /** For `sleep`: the instant at which it finishes. For `wait`: an expression over the response of the URL. */
  until?: string
  /** For `wait`, beside `command`, `url` and `workflow`: a file or object, or a query. */
  path?: string
  sql?: string
  /** Name of the configured database of `sql`. */
  connection?: string
  /** For `wait` with `workflow`: the logical date of the run. */
  logical_date?: string
  /** For `wait`: the time between two checks, and whether the task is skipped when it times out. */
  every?: Duration
  soft_fail?: boolean
  /** For `approval`: the question, and the decision after the timeout. */
  message?: string
  default?: "approve" | "reject"
  // Options of one executor.
  http?: HttpDefinition
  docker?: DockerDefinition
  kubernetes?: KubernetesDefinition
  slurm?: SlurmDefinition
  cloudrun?: CloudrunDefinition
  /** Makes the task a group; replaces the command. */
  tasks?: { [name: string]: TaskDefinition }
  // When it runs, and how often.
  depends_on?: string[]
  run_when?: RunWhen
  if?: string | boolean
  foreach?: Json
  parallel?: number | string
  label?: string
  concurrency?: number
  concurrency_key?: string
  cache?: { key: string; ttl?: Duration }
  // Input and environment.
  input?: JsonObject
  env?: EnvDefinition
  /** A file beside the definition with variables; `env` wins. */
  env_file?: string
  working_dir?: string
  run_as?: string
  script_dir?: string
  resources?: { cpu?: number | string; memory?: number | string }
  /** How standard output becomes the output (`text`, `lines`, `json`), a JSON Schema, or the name of one under `types`. */
  output?: string | JsonObject
  /** Files that a successful attempt stores: patterns, relative to its working folder. */
  artifacts?: string | string[]
  /** Tasks whose artifacts this task gets in $ORK_ARTIFACTS; it depends on them. */
  artifacts_from?: string | string[]
  /** Allows the task to defer its work (`ork_defer`), and to send its secrets in polls of these hosts. */
  defer?: boolean
  defer_hosts?: string[]
  /** Allows arguments of the command that begin with a value to start with `-`. */
  allow_option_values?: boolean
  // Failures, retries and timeouts.
  /** Tasks that run after the task has failed. definition/aliases.ts makes them tasks of their own. */
  on_failure?: TaskDefinition[]
  /** A failure does not fail the run, and counts as a success for the tasks below. */
  continue_on_error?: boolean
  /** Exit codes and error texts after which the task is retried; it fails at once after others. */
  retry_on?: FailurePattern[]
  /** Exit codes and error texts after which the task is skipped. */
  skip_on?: FailurePattern[]
  retries?: number
  retry?: RetryDefinition
  lost_retries?: number
  timeout?: Duration
  start_timeout?: Duration
  /** Messages about the task, and the time from the start of the run after which it is late. */
  notify?: NotifyDefinition | NotifyDefinition[]
  deadline?: Duration
  // Where it runs.
  queue?: string
  labels?: string[]
  worker?: string
  priority?: number
}

export interface ScheduleDefinition {
  /** A schedule has either `cron` or `every`. */
  cron?: string
  every?: Duration
  timezone?: string
  catchup?: "none" | "latest" | "all"
  overlap?: "allow" | "skip" | "queue" | "cancel"
  jitter?: Duration
  start?: string
  end?: string
  params?: JsonObject
}

/** Starts a run after successful runs of other workflows (`after`), or for each new file or object (`path`). */
export interface TriggerDefinition {
  after?: string | string[]
  when?: "all" | "any"
  /** Looked at `every` so often. */
  path?: string
  every?: Duration
  params?: JsonObject
}

export interface NotifyDefinition {
  on: ("success" | "failure" | "cancel" | "deadline")[]
  webhook?: string
  slack?: string
  email?: string | string[]
  /** Texts of the e-mail, with expressions over params and run, and over task in a notification of a task. */
  subject?: string
  body?: string
}

/** An object with `type`, `default`, `enum`, … specifies the param; any other value is its default. */
export type ParamDefinition = Json

export type WorkflowDefinition = {
  name: string
  description?: string
  tags?: string[]
  types?: { [name: string]: JsonObject }
  params?: { [name: string]: ParamDefinition }
  schedule?: string | ScheduleDefinition | (string | ScheduleDefinition)[]
  /** Name of the secret that signs messages; two during a rotation. */
  webhook?: { secret: string | string[] }
  triggers?: TriggerDefinition | TriggerDefinition[]
  depends_on_past?: boolean
  notify?: NotifyDefinition | NotifyDefinition[]
  deadline?: Duration
  concurrency?: number
  max_active_runs?: number
  timeout?: Duration
  priority?: number
  env?: EnvDefinition
  include?: string[]
  defaults?: Omit<TaskDefinition, "tasks" | "depends_on" | "artifacts_from">
  tasks: { [name: string]: TaskDefinition }
} & { [hook in HookEvent]?: TaskDefinition[] }
