// What each field of a definition means. Editors show these texts (`ork schema`), and the tables of docs/reference/definition.md are
// generated from them (`npm run docs:reference`).

import type {
  CloudrunDefinition,
  DockerDefinition,
  HttpDefinition,
  KubernetesDefinition,
  KubernetesSecurity,
  NotifyDefinition,
  RetryDefinition,
  ScheduleDefinition,
  SecretDefinition,
  SlurmDefinition,
  TaskDefinition,
  TriggerDefinition,
  WorkflowDefinition,
} from "../core/model/definition.ts"

export interface FieldDescription {
  about: string
  /** In Markdown. */
  default?: string
  /** Section of docs/reference/definition.md with details, such as `#groups`. */
  see?: string
}

export type FieldDescriptions<Fields extends object> = { readonly [Name in keyof Fields]-?: FieldDescription }

export const WORKFLOW_FIELDS: FieldDescriptions<WorkflowDefinition> = {
  name: {
    about: "letters, digits, `_`, `.` and `-`, up to 128 characters, starting with a letter or digit",
    default: "required",
  },
  description: { about: "documentation for people" },
  tags: { about: "words for filters, and for the limits of keys and roles" },
  params: {
    about:
      "parameters by name: a spec (`type`, `required`, `default`, `enum`, `description`, JSON Schema keywords) or a default value",
  },
  types: { about: "JSON Schemas by name, for `output` of tasks" },
  tasks: { about: "tasks by name", default: "required" },
  defaults: { about: "task fields for every task; the task's own fields override them" },
  env: { about: "environment of every task: literals, expressions, `{ secret: NAME }`" },
  concurrency: { about: "tasks of one run at once", default: "none" },
  max_active_runs: { about: "runs at once; more stay `pending`, oldest first", default: "none" },
  priority: { about: "10 first", default: "5" },
  timeout: { about: "limit for the whole run: its tasks are cancelled and the run is `failed`", default: "none" },
  deadline: { about: "warns once and does not stop the run; servers only", default: "none" },
  on_success: { about: "hooks: tasks that run after a run that succeeded" },
  on_failure: { about: "hooks: tasks that run after a run that failed" },
  on_cancel: { about: "hooks: tasks that run after a run that was cancelled" },
  on_exit: { about: "hooks: tasks that run after every run" },
  schedule: { about: "a cron expression, a schedule or a list of them; servers only", see: "#schedule" },
  triggers: { about: "start runs after other workflows, or for new files and objects; servers only", see: "#triggers" },
  depends_on_past: {
    about: "a scheduled run waits for the success of the run of the previous tick",
    default: "false",
  },
  webhook: {
    about:
      "`{ secret: NAME }`: messages to `/hooks/WORKFLOW`, signed with this secret, trigger a run; two names during a rotation; servers only",
  },
  notify: { about: "messages about runs; servers only", see: "#notify" },
  include: { about: "patterns (`lib/**`) of files to deploy with the definition", see: "#files" },
}

export const TASK_FIELDS: FieldDescriptions<TaskDefinition> = {
  description: { about: "documentation for people" },
  executor: {
    about:
      "what runs the task: `process`, `node`, `python`, `http`, `docker`, `kubernetes`, `slurm`, `cloudrun`, `sleep`, `wait`, `approval`, `workflow`, or the name of a registered function",
    default: "`process`",
  },
  command: { about: "text: a script for `shell`; list: a program and its arguments, without a shell" },
  shell: {
    about: "what runs a text `command`: `sh`, `bash`, `python`, `node`, or a program with arguments",
    default: "`sh`",
    see: "#scripts",
  },
  file: {
    about: "file of a function, relative to the definition; for `python` also a module by its dotted name",
    see: "#functions",
  },
  function: { about: "name of a function in `file`, or of a registered function", see: "#functions" },
  interpreter: {
    about: "Python program or virtualenv of a function or command: a path, or the name of a program in `PATH`",
    default: "`python3` in `PATH`",
    see: "#python",
  },
  requirements: {
    about: "Python packages that Ork installs into a virtualenv for the task, or the name of a file that lists them",
    see: "#requirements",
  },
  url: { about: "address of an `http` task or of a `wait`, or `{ secret: NAME }`", see: "#http" },
  method: { about: "method of an `http` task", default: "`GET`; `POST` with a body", see: "#http" },
  headers: {
    about: "headers of an `http` task: texts, numbers, `{ secret: NAME, prefix }`; null omits a header",
    see: "#http",
  },
  body: {
    about: "body of an `http` task: a text is sent unchanged, anything else as JSON, or as a form by its `content-type`",
    see: "#http",
  },
  image: { about: "container image of a `docker` or `kubernetes` task" },
  job: { about: "Cloud Run job of a `cloudrun` task", see: "#cloudrun" },
  workflow: { about: "name of the workflow that a `workflow` task runs, or that a `wait` waits for", see: "#tasks-that-wait" },
  duration: { about: "how long a `sleep` task waits", see: "#tasks-that-wait" },
  until: {
    about: "instant at which a `sleep` task finishes; for a `wait` with `url`, an expression over `response`",
    see: "#tasks-that-wait",
  },
  path: { about: "file, folder or object that a `wait` waits for; `*` and `**` match names", see: "#wait" },
  sql: { about: "query of a `wait`: its first column must be true", see: "#wait" },
  connection: { about: "configured database of `sql`", default: "the only one", see: "#wait" },
  logical_date: { about: "logical date of the run that a `wait` with `workflow` waits for", see: "#wait" },
  every: { about: "time between two checks of a `wait`", default: "`30s`", see: "#wait" },
  soft_fail: {
    about: "true: a `wait` that times out is skipped, as by `if`, instead of failing",
    default: "false",
    see: "#wait",
  },
  message: { about: "question of an `approval` task", see: "#tasks-that-wait" },
  default: { about: "decision of an `approval` task if nobody responds within `timeout`", see: "#tasks-that-wait" },
  http: { about: "expectations on the response to an `http` task", see: "#http" },
  docker: { about: "options for the container of a `docker` task", see: "#docker" },
  kubernetes: { about: "options for the Job of a `kubernetes` task", see: "#kubernetes" },
  slurm: { about: "options for the job of a `slurm` task", see: "#slurm" },
  cloudrun: { about: "options for the job of a `cloudrun` task", see: "#cloudrun" },
  tasks: { about: "makes the task a group: a graph of its own instead of a command", see: "#groups" },
  depends_on: { about: "names of the upstream tasks, which must finish first" },
  run_when: {
    about: "condition on the results of the upstream tasks; the task is skipped if it is not met",
    default: "`all_success`",
  },
  if: { about: "expression; the task is skipped if it is false" },
  foreach: {
    about: "list, reference or expression: one instance per item; the task depends on the tasks that it refers to",
    see: "#fan-out",
  },
  parallel: { about: "number, reference or expression: so many instances; with `foreach`, so many per item", see: "#fan-out" },
  label: {
    about: "expression that names an instance: `load[3] rome.csv`; accepted wherever its index is",
    default: "the item, its `name` or `id`",
  },
  concurrency: { about: "instances at once in a run; with `concurrency_key` per key", default: "none" },
  concurrency_key: { about: "expression: counts `concurrency` per key, across runs" },
  cache: { about: "reuses a success under the same `key` (an expression), also in later runs, for the time of `ttl`" },
  input: { about: "added to the outputs of upstream tasks as the input of the task; values may contain expressions" },
  env: { about: "environment of the task: literals, expressions, `{ secret: NAME }`" },
  env_file: { about: "file beside the definition with variables, one `NAME=value` per line", see: "#environment-files" },
  working_dir: { about: "folder that the task runs in", default: "the file's folder" },
  run_as: { about: "user that the process runs as; the policy of a server allows root only if it says so" },
  script_dir: { about: "folder that is added to `PATH`" },
  resources: { about: "limits of `cpu` and `memory`, enforced through cgroups where available" },
  output: {
    about:
      "`text`, `lines` or `json`: what standard output is; or a JSON Schema (or its name under `types`): an output that does not match fails the attempt",
    see: "#output",
  },
  artifacts: { about: "files that a successful attempt stores: paths and patterns", see: "#artifacts" },
  artifacts_from: {
    about: "tasks whose artifacts this task gets in `$ORK_ARTIFACTS/NAME`; it depends on them",
    see: "#artifacts",
  },
  defer: { about: "allows the task to defer its work to another system", default: "false", see: "#tasks-that-wait" },
  defer_hosts: { about: "hosts whose polls may contain secrets of the task", see: "#tasks-that-wait" },
  allow_option_values: {
    about: "allows arguments that begin with a value to start with `-`",
    default: "false",
    see: "#values-in-commands",
  },
  continue_on_error: {
    about: "a failure does not fail the run and counts as a success for the tasks below; the task stays `failed`",
    default: "false",
  },
  on_failure: {
    about:
      "hooks: tasks that run after the task has failed, without an effect on the run; `run` means `run_when: all_done`, and `skip` the default",
    see: "#hooks-of-a-task",
  },
  retry_on: {
    about: "exit codes and parts of error texts: the task is retried after these failures only",
    default: "all failures",
  },
  skip_on: { about: "exit codes and parts of error texts: after these failures the task is skipped, as by `if`" },
  retries: { about: "attempts after the first; `max_retries` is an alias", default: "0" },
  retry: { about: "number of attempts, and delays between them", see: "#retry" },
  lost_retries: { about: "attempts lost with their machine that do not count against `retries`", default: "3" },
  timeout: {
    about: "limit for one attempt, from its start; waiting tasks, groups and deferred work have none unless it is set",
    default: "1h",
  },
  start_timeout: { about: "limit from dispatch to start", default: "5m" },
  notify: { about: "messages about the task, such as its failure after the last attempt; servers only", see: "#notify" },
  deadline: {
    about: "time from the start of the run: warns once if the task has not ended by then, and does not stop it; servers only",
    default: "none",
    see: "#notify",
  },
  queue: { about: "queue whose workers may claim the task; `ork run` claims all", default: "`default`" },
  labels: { about: "labels that a worker must have to claim the task; `ork run` claims all" },
  worker: { about: "worker profile, which gives the task its fields", see: "#worker-profiles" },
  priority: { about: "10 first", default: "the run's" },
}

export const RETRY_FIELDS: FieldDescriptions<RetryDefinition> = {
  max_attempts: { about: "attempts in all, with the first", default: "1, or `retries` + 1" },
  backoff: { about: "the delay is constant, grows by `base_delay`, or doubles", default: "`exponential`" },
  base_delay: { about: "delay before the second attempt", default: "1s" },
  max_delay: { about: "longest delay", default: "5m" },
  jitter: { about: "makes each delay 50 to 100 % of what it would be", default: "false" },
}

export const CACHE_FIELDS: FieldDescriptions<{ key: string; ttl?: number }> = {
  key: { about: "expression; a success under the same key is reused", default: "required" },
  ttl: { about: "how long a success may be reused", default: "for ever" },
}

export const RESOURCE_FIELDS: FieldDescriptions<{ cpu: number; memory: number }> = {
  cpu: { about: "number of cores, such as `2` or `500m`" },
  memory: { about: "size, such as `512Mi` or `2Gi`" },
}

export const SCHEDULE_FIELDS: FieldDescriptions<ScheduleDefinition> = {
  cron: { about: "cron expression of five fields (six with seconds), also `@daily`, `L`, `W` and `#`" },
  every: { about: "interval instead of `cron`: ticks at its multiples since 1970 in UTC" },
  timezone: { about: "time zone of the expression, such as `Europe/Berlin`", default: "`UTC`" },
  catchup: { about: "which ticks run that were missed while no server was running", default: "`none`" },
  overlap: {
    about: "what happens to a tick while an earlier run of the schedule is active",
    default: "`skip`; `queue` with `catchup: all` or `depends_on_past`",
  },
  jitter: { about: "delays each tick by a time of its own, less than this one" },
  start: { about: "first instant, or day in the time zone" },
  end: { about: "instant at which the schedule ends, or its last day" },
  params: { about: "params of the runs" },
}

export const TRIGGER_FIELDS: FieldDescriptions<TriggerDefinition> = {
  after: { about: "names of other workflows, which need not be deployed yet; their successful runs start a run" },
  when: {
    about: "`all`: one run when each of them has succeeded since the last run of this trigger; `any`: one run for each success",
    default: "`all`",
  },
  path: {
    about:
      "instead of `after`: pattern of files or objects, such as `/data/in/*.csv` or `s3://bucket/in/*.csv`; one run for each new one",
  },
  every: { about: "how often Ork looks for files, at least 1s", default: "30s" },
  params: { about: "params of the runs; expressions can read `run.cause`, `run.logical_date`, `run.date` and `run.trigger`" },
}

export const NOTIFY_FIELDS: FieldDescriptions<NotifyDefinition> = {
  on: { about: "events to send", default: "required" },
  webhook: { about: "address that gets `{ event, run }` as JSON, about a task `{ event, run, task }`" },
  slack: { about: "address of a Slack webhook, which gets `{ text }`" },
  email: { about: "e-mail address, or a list of them; the SMTP server is a setting of the server" },
  subject: {
    about: "subject of the e-mail; expressions can read `params` and `run`, and `task` if it is about a task",
    default: "`NAME#12 failed`",
  },
  body: { about: "text of the e-mail, with the same expressions", default: "error, times and a link" },
}

export const SECRET_FIELDS: FieldDescriptions<SecretDefinition> = {
  secret: { about: "name of the secret" },
  prefix: { about: "text before its value, such as `Bearer `" },
}

export const HTTP_FIELDS: FieldDescriptions<HttpDefinition> = {
  expect: { about: "statuses that are a success; others fail the attempt", default: '`["2xx"]`' },
  retry_on: {
    about: "failures that are retried while `retries` are left; others fail the task",
    default: '`[408, 429, "5xx"]`',
  },
  redirects: { about: "maximum number of redirects to follow; 0 follows none", default: "5" },
  max_body: { about: "largest response body; at most `max_output`", default: "`1Mi`" },
}

export const DOCKER_FIELDS: FieldDescriptions<DockerDefinition> = {
  pull: { about: "when to pull the image", default: "`missing`" },
  platform: { about: "such as `linux/arm64`", default: "the engine's" },
  mounts: {
    about:
      "`source:/target` or `source:/target:ro`; a source with a slash is a path (relative to `working_dir`; the server's policy must allow one outside of the run's folder), otherwise a volume",
  },
  tmpfs: { about: "paths of folders in memory" },
  work: { about: "path where the run's folder is mounted; false: nowhere", default: "`/work`" },
  workdir: { about: "path where the command runs", default: "`work`" },
  entrypoint: { about: "replaces the image's entrypoint", default: "the image's; none for a text command" },
  user: { about: "`1000` or `1000:1000`", default: "the image's" },
  network: { about: "`none`, `host`, or a network's name", default: "the engine's" },
  hosts: { about: "additional names in `/etc/hosts`: `{ db: 10.0.0.5 }`" },
  read_only: { about: "makes the image's files read-only", default: "false" },
  privileged: { about: "grants all rights on the machine; servers reject it unless their policy allows it", default: "false" },
  cap_add: { about: "capabilities to keep; all others are dropped" },
  pids: { about: "maximum number of processes", default: "4096" },
  shm_size: { about: "size of `/dev/shm`", default: "the engine's" },
  gpus: { about: "GPUs, through the engine's GPU support: a number, or `all`" },
}

export const KUBERNETES_FIELDS: FieldDescriptions<KubernetesDefinition> = {
  namespace: { about: "namespace of the Job", default: "the setting" },
  service_account: { about: "service account of the pod", default: "the namespace's" },
  automount_token: { about: "gives the pod a token of its service account", default: "false" },
  exec: { about: "the container runs `ork exec`: input, output and log go through the object store", default: "false" },
  entrypoint: { about: "replaces the image's entrypoint, `/bin/sh -c` for a text, or `ork exec`", default: "the image's" },
  workdir: { about: "path where the command runs", default: "the image's" },
  image_pull_policy: { about: "when to pull the image", default: "the cluster's" },
  image_pull_secrets: { about: "Secrets of the namespace for private registries" },
  node_selector: { about: "labels that the node must have" },
  tolerations: { about: "as in a pod" },
  affinity: { about: "as in a pod" },
  priority_class: { about: "priority class of the pod" },
  runtime_class: { about: "runtime class of the pod" },
  labels: { about: "added to those of Ork on Job and pod" },
  annotations: { about: "added to those of Ork on Job and pod" },
  volumes: { about: "as in a pod" },
  volume_mounts: { about: "as in a container" },
  env_from: { about: "as in a container: variables from Secrets and ConfigMaps of the namespace" },
  requests: { about: "additional or other requests", default: "from `resources`" },
  limits: { about: "additional or other limits: `{ nvidia.com/gpu: 1 }`", default: "from `resources`" },
  security: { about: "rights of the pod" },
  ttl: { about: "how long the Job is kept after it finishes; at least a minute", default: "`kubernetes_ttl`" },
}

export const SECURITY_FIELDS: FieldDescriptions<KubernetesSecurity> = {
  run_as_user: {
    about: "id of the user, or `image` for that of the image",
    default: "65534; with `run_as_non_root: false` `image`",
  },
  run_as_group: { about: "id of the group, or `image`", default: "65534; with `run_as_non_root: false` `image`" },
  run_as_non_root: { about: "rejects root", default: "true" },
  fs_group: { about: "group that owns the volumes" },
  allow_privilege_escalation: { about: "allows setuid programs", default: "false" },
  privileged: { about: "grants all rights on the node; servers reject it unless their policy allows it", default: "false" },
  read_only_root: { about: "makes the image's files read-only", default: "false" },
  capabilities: { about: "capabilities to add, such as `[NET_BIND_SERVICE]`", default: "none: all are dropped" },
  seccomp: { about: "profile of system calls", default: "`RuntimeDefault`" },
}

export const SLURM_FIELDS: FieldDescriptions<SlurmDefinition> = {
  partition: { about: "as for `sbatch`", default: "the cluster's" },
  account: { about: "as for `sbatch`", default: "the cluster's" },
  qos: { about: "as for `sbatch`", default: "the cluster's" },
  time: { about: "the cluster's own limit on the job", default: "the partition's" },
  gres: { about: "such as `gpu:2`" },
  constraint: { about: "such as `haswell`" },
  nodes: {
    about: "nodes of the allocation; the command runs once, on the first node, and starts the rest with `srun`",
    default: "1",
  },
  tasks: { about: "tasks of the allocation", default: "1" },
  options: { about: 'additional options of `sbatch`, unchanged: `["--exclusive"]`; Ork sets names, files and arrays itself' },
}

export const CLOUDRUN_FIELDS: FieldDescriptions<CloudrunDefinition> = {
  project: { about: "project of the job", default: "`cloudrun_project`" },
  region: { about: "region of the job", default: "`cloudrun_region`" },
  container: { about: "container that gets arguments and variables and whose log is read", default: "the only one" },
  args: { about: "arguments that replace the job's own", default: "the job's" },
  exec: { about: "the container runs `ork exec`, which runs `command` and reports", default: "false" },
}
