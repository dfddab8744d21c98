// `slurm: { … }` of a task: how its job is submitted.

import { z } from "zod"
import type { SlurmDefinition } from "../core/model/definition.ts"
import { count, duration, strictObject, text } from "./schema-parts.ts"

/** What Ork itself decides: another value would lose the job from its sight. */
const OURS =
  /^--(?:job-name|output|error|input|array|parsable|chdir|export|wrap|wait|requeue|open-mode|comment)(?:=|$)|^-(?:J|o|e|i|a|D|W)/

const option = text
  .regex(/^-/, 'must be an option of sbatch such as "--exclusive"')
  .refine((value) => !OURS.test(value), "is set by Ork and cannot be given here")

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
