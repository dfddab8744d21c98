// Schema of `docker: { … }` of a task: options of its container.

import { z } from "zod"
import type { DockerDefinition } from "../core/model/definition.ts"
import { count, either, memory, record, strictObject, text } from "./schema-parts.ts"

const mount = text.regex(/^[^:]+:\/[^:]*(:(ro|rw))?$/, 'must be "source:/target" or "source:/target:ro"')
const path = text.regex(/^\//, "must be an absolute path, beginning with /")

export const dockerFields = strictObject({
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
} satisfies Record<keyof DockerDefinition, z.ZodType>)
