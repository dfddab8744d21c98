// Schema of `slurm: { … }` of a task: options of its job.

import { z } from "zod"
import type { SlurmDefinition } from "../core/model/definition.ts"
import { count, duration, strictObject, text } from "./schema-parts.ts"

/** Options that Ork sets: with other values it could not find the job again. */
const RESERVED_OPTIONS =
  /^--(?:job-name|output|error|input|array|parsable|chdir|export|wrap|wait|requeue|open-mode|comment)(?:=|$)|^-(?:J|o|e|i|a|D|W)/

const option = text
  .regex(/^-/, 'must be an option of sbatch such as "--exclusive"')
  .refine((value) => !RESERVED_OPTIONS.test(value), "is set by Ork; remove it")

export const slurmFields = strictObject({
  partition: text.optional(),
  account: text.optional(),
  qos: text.optional(),
  time: duration.optional(),
  gres: text.optional(),
  constraint: text.optional(),
  nodes: count.optional(),
  tasks: count.optional(),
  options: z.array(option).optional(),
} satisfies Record<keyof SlurmDefinition, z.ZodType>)
