// Schema of `kubernetes: { … }` of a task: options of its Job and pod. Objects of Kubernetes (volumes, tolerations, affinity) are passed
// unchanged; the cluster validates them.

import { z } from "zod"
import type { KubernetesDefinition, KubernetesSecurity } from "../core/model/definition.ts"
import { duration, either, object, record, strictObject, text } from "./schema-parts.ts"

const quantity = either('a number or a text such as "500m" or "1Gi"', [z.number(), text])
const user = either("the id of a user or group, or `image`", [z.int().min(0), z.literal("image")])
const named = z.looseObject({ name: text })
/** Ork finds its Jobs by labels with the prefix `ork.dev/`. */
const labels = record(text).refine(
  (given) => !Object.keys(given).some((name) => name.startsWith("ork.dev/")),
  "must not have names that begin with ork.dev/, which Ork reserves",
)

const security = strictObject({
  run_as_user: user.optional(),
  run_as_group: user.optional(),
  run_as_non_root: z.boolean().optional(),
  fs_group: z.int().min(0).optional(),
  allow_privilege_escalation: z.boolean().optional(),
  privileged: z.boolean().optional(),
  read_only_root: z.boolean().optional(),
  capabilities: z.array(text).optional(),
  seccomp: z.enum(["RuntimeDefault", "Unconfined"]).optional(),
} satisfies Record<keyof KubernetesSecurity, z.ZodType>)

export const kubernetesFields = strictObject({
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
} satisfies Record<keyof KubernetesDefinition, z.ZodType>)
