// Schemas of the options of single executors in a task (`http: { … }`, `docker: { … }`, …), and of `url` and `headers`.

import { z } from "zod"
import type {
  CloudrunDefinition,
  DockerDefinition,
  HttpDefinition,
  KubernetesDefinition,
  KubernetesSecurity,
  SecretDefinition,
  SlurmDefinition,
} from "../core/model/definition.ts"
import {
  CLOUDRUN_FIELDS,
  DOCKER_FIELDS,
  HTTP_FIELDS,
  KUBERNETES_FIELDS,
  SECRET_FIELDS,
  SECURITY_FIELDS,
  SLURM_FIELDS,
} from "./field-descriptions.ts"
import { count, describedObject, duration, either, memory, object, record, text } from "./schema-parts.ts"

const status = either('a status such as 404, or a class of them such as "4xx"', [
  z.int().min(100).max(599),
  text.regex(/^[1-5](?:\d\d|xx)$/, 'must be a status such as "404" or "4xx"'),
]).meta({ title: "status" })

export const httpFields = describedObject(
  {
    expect: z.array(status).min(1).optional(),
    retry_on: z.array(status).optional(),
    redirects: z.int().min(0).max(20).optional(),
    max_body: memory.optional(),
  } satisfies Record<keyof HttpDefinition, z.ZodType>,
  HTTP_FIELDS,
)

const secret = describedObject(
  { secret: text, prefix: text.optional() } satisfies Record<keyof SecretDefinition, z.ZodType>,
  SECRET_FIELDS,
)

export const urlField = either("a text or { secret: NAME }", [text, secret])

export const headersField = record(
  either("a text, a number, true, false, null or { secret: NAME, prefix }", [text, z.number(), z.boolean(), z.null(), secret]),
)

const mount = text.regex(/^[^:]+:\/[^:]*(:(ro|rw))?$/, 'must be "source:/target" or "source:/target:ro"')
const path = text.regex(/^\//, "must be an absolute path, beginning with /")

export const dockerFields = describedObject(
  {
    pull: z.enum(["missing", "always", "never"]).optional(),
    platform: text.optional(),
    mounts: z.array(mount).optional(),
    tmpfs: z.array(path).optional(),
    work: either("a path in the container, or false", [path, z.literal(false)]).optional(),
    workdir: path.optional(),
    entrypoint: z.array(text).optional(),
    user: text.optional(),
    network: text.optional(),
    hosts: record(text).optional(),
    read_only: z.boolean().optional(),
    privileged: z.boolean().optional(),
    cap_add: z.array(text).optional(),
    pids: count.optional(),
    shm_size: memory.optional(),
    gpus: either("a number of GPUs or `all`", [count, text.regex(/^all$/, "must be a number of GPUs or `all`")]).optional(),
  } satisfies Record<keyof DockerDefinition, z.ZodType>,
  DOCKER_FIELDS,
)

const quantity = either('a number or a text such as "500m" or "1Gi"', [z.number(), text])
const user = either("the id of a user or group, or `image`", [z.int().min(0), z.literal("image")])
const named = z.looseObject({ name: text.meta({ description: "name of the volume" }) })
/** Ork finds its Jobs by labels with the prefix `ork.dev/`. */
const labels = record(text).refine(
  (given) => !Object.keys(given).some((name) => name.startsWith("ork.dev/")),
  "must not have names that begin with ork.dev/, which Ork reserves",
)

const security = describedObject(
  {
    run_as_user: user.optional(),
    run_as_group: user.optional(),
    run_as_non_root: z.boolean().optional(),
    fs_group: z.int().min(0).optional(),
    allow_privilege_escalation: z.boolean().optional(),
    privileged: z.boolean().optional(),
    read_only_root: z.boolean().optional(),
    capabilities: z.array(text).optional(),
    seccomp: z.enum(["RuntimeDefault", "Unconfined"]).optional(),
  } satisfies Record<keyof KubernetesSecurity, z.ZodType>,
  SECURITY_FIELDS,
)

export const kubernetesFields = describedObject(
  {
    namespace: text.optional(),
    service_account: text.optional(),
    automount_token: z.boolean().optional(),
    exec: z.boolean().optional(),
    entrypoint: z.array(text).optional(),
    workdir: text.optional(),
    image_pull_policy: z.enum(["Always", "IfNotPresent", "Never"]).optional(),
    image_pull_secrets: z.array(text).optional(),
    node_selector: record(text).optional(),
    tolerations: z.array(object).optional(),
    affinity: object.optional(),
    priority_class: text.optional(),
    runtime_class: text.optional(),
    labels: labels.optional(),
    annotations: record(text).optional(),
    volumes: z.array(named).optional(),
    volume_mounts: z.array(named).optional(),
    env_from: z.array(object).optional(),
    requests: record(quantity).optional(),
    limits: record(quantity).optional(),
    security: security.optional(),
    ttl: duration.optional(),
  } satisfies Record<keyof KubernetesDefinition, z.ZodType>,
  KUBERNETES_FIELDS,
)

/** Options that Ork sets: with other values it could not find the job again. */
const RESERVED_OPTIONS =
  /^--(?:job-name|output|error|input|array|parsable|chdir|export|wrap|wait|requeue|open-mode|comment)(?:=|$)|^-(?:J|o|e|i|a|D|W)/

const option = text
  .regex(/^-(?:-[a-z][a-z0-9-]*(?:=|$)|[A-Za-z])/, 'must be an option of sbatch such as "--exclusive"')
  .refine((value) => !RESERVED_OPTIONS.test(value), "is set by Ork; remove it")

export const slurmFields = describedObject(
  {
    partition: text.optional(),
    account: text.optional(),
    qos: text.optional(),
    time: duration.optional(),
    gres: text.optional(),
    constraint: text.optional(),
    nodes: count.optional(),
    tasks: count.optional(),
    options: z.array(option).optional(),
  } satisfies Record<keyof SlurmDefinition, z.ZodType>,
  SLURM_FIELDS,
)

export const cloudrunFields = describedObject(
  {
    project: text.optional(),
    region: text.optional(),
    container: text.optional(),
    args: z.array(text).optional(),
    exec: z.boolean().optional(),
  } satisfies Record<keyof CloudrunDefinition, z.ZodType>,
  CLOUDRUN_FIELDS,
)
