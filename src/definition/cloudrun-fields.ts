// Schema of `cloudrun: { … }` of a task: options of its Cloud Run job.

import { z } from "zod"
import type { CloudrunDefinition } from "../core/model/definition.ts"
import { strictObject, text } from "./schema-parts.ts"

export const cloudrunFields = strictObject({
  project: text.optional(),
  region: text.optional(),
  container: text.optional(),
  args: z.array(text).optional(),
  exec: z.boolean().optional(),
} satisfies Record<keyof CloudrunDefinition, z.ZodType>)
