// A workflow as its author writes it (YAML, JSON, `defineWorkflow`). `compile` turns it into a CompiledWorkflow; the schema of
// the same shape is in definition/workflow-schema.ts. Field names are those of the file, so snake_case.

import type { Json, JsonObject } from "./json.ts"
import type { HookEvent, RunWhen } from "./workflow.ts"

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

/** A secret, with a text before it such as `Bearer `. */
export type SecretDefinition = { secret: string; prefix?: string }

/** What is expected of the answer to a request. */
export type HttpDefinition = {
  /** Statuses that are a success: 200, "2xx". */
  expect?: (number | string)[]
  /** Other statuses after which it is tried again. */
  retry_on?: (number | string)[]
  redirects?: number
  max_body?: number | string
}

/** How the container is made. */
export type DockerDefinition = {
  pull?: "missing" | "always" | "never"
  platform?: string
  /** `source:target[:ro]`; a source with a slash is a folder or file of the engine's machine, else a volume. */
  mounts?: string[]
  tmpfs?: string[]
  /** Where the run's folder is mounted; false: nowhere. */
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

/** How the Job and its pod are made. Lists of objects and `affinity` are passed on in Kubernetes' own words. */
export type KubernetesDefinition = {
  namespace?: string
  service_account?: string
  /** The pod may speak to the cluster with its service account. */
  automount_token?: boolean
  /** The container runs `ork exec`, which its image must have. */
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
  /** Beside what `resources` asks for, and in place of it. */
  requests?: { [resource: string]: string | number }
  limits?: { [resource: string]: string | number }
  security?: KubernetesSecurity
  /** How long the Job stays after its end. */
  ttl?: Duration
}

export type KubernetesSecurity = {
  /** `image`: whoever the image says. */
  run_as_user?: number | "image"
  run_as_group?: number | "image"
  run_as_non_root?: boolean
  fs_group?: number
  allow_privilege_escalation?: boolean
  privileged?: boolean
  read_only_root?: boolean
  /** Those that are given back. */
  capabilities?: string[]
  seccomp?: "RuntimeDefault" | "Unconfined"
}

/** Which job is run, and how. */
export type CloudrunDefinition = {
  project?: string
  region?: string
  /** Which of the job's containers, when it has several. */
  container?: string
  /** In place of the job's own arguments; `command` is the same unless `ork exec` runs it. */
  args?: string[]
  /** The container runs `ork exec`, which its image must have. */
  exec?: boolean
}

/** How the job is submitted. */
export type SlurmDefinition = {
  partition?: string
  account?: string
  qos?: string
  /** The cluster's own limit; without it that of the partition. */
  time?: Duration
  gres?: string
  constraint?: string
  nodes?: number
  tasks?: number
  /** More options of sbatch, as they are. */
  options?: string[]
}

export interface TaskDefinition {
  description?: string
  executor?: string
  // What it runs, by executor.
  command?: string | string[]
  file?: string
  function?: string
  url?: string | SecretDefinition
  method?: string
  headers?: { [name: string]: string | number | boolean | null | SecretDefinition }
  body?: Json
  image?: string
  job?: string
  workflow?: string
  duration?: Duration
  /** sleep: until this instant. */
  until?: string
  /** approval: what is asked, and the answer when nobody gives one in time. */
  message?: string
  default?: "approve" | "reject"
  // Options that one executor has alone.
  http?: HttpDefinition
  docker?: DockerDefinition
  kubernetes?: KubernetesDefinition
  slurm?: SlurmDefinition
  cloudrun?: CloudrunDefinition
  /** A group: in place of a command. */
  tasks?: { [name: string]: TaskDefinition }
  // When.
  depends_on?: string[]
  run_when?: RunWhen
  if?: string | boolean
  foreach?: Json
  parallel?: number | string
  concurrency?: number
  concurrency_key?: string
  cache?: { key: string; ttl?: Duration }
  // With what.
  input?: JsonObject
  env?: EnvDefinition
  working_dir?: string
  run_as?: string
  script_dir?: string
  resources?: { cpu?: number | string; memory?: number | string }
  output?: string | JsonObject
  // How often, how long.
  retries?: number
  retry?: RetryDefinition
  lost_retries?: number
  timeout?: Duration
  start_timeout?: Duration
  // Where.
  queue?: string
  labels?: string[]
  worker?: string
  priority?: number
}

export interface ScheduleDefinition {
  cron: string
  timezone?: string
  catchup?: "none" | "latest" | "all"
  overlap?: "allow" | "skip" | "queue" | "cancel"
  jitter?: Duration
  start?: string
  end?: string
  params?: JsonObject
}

export interface NotifyDefinition {
  on: ("success" | "failure" | "cancel" | "deadline")[]
  webhook?: string
  slack?: string
}

/** An object with `type`, `default`, `enum`, … is a spec; anything else is the default itself. */
export type ParamDefinition = Json

export type WorkflowDefinition = {
  name: string
  description?: string
  tags?: string[]
  types?: { [name: string]: JsonObject }
  params?: { [name: string]: ParamDefinition }
  schedule?: string | ScheduleDefinition | (string | ScheduleDefinition)[]
  webhook?: { secret: string }
  notify?: NotifyDefinition[]
  deadline?: Duration
  concurrency?: number
  max_active_runs?: number
  timeout?: Duration
  priority?: number
  env?: EnvDefinition
  include?: string[]
  defaults?: Omit<TaskDefinition, "tasks" | "depends_on">
  tasks: { [name: string]: TaskDefinition }
} & { [hook in HookEvent]?: TaskDefinition[] }
