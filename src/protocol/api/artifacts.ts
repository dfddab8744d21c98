// Schemas of the artifacts of a task.

import { z } from "zod"
import { strictObject, text } from "./common.ts"
import { attemptSelector } from "./streams.ts"

export const artifactQuery = strictObject(attemptSelector)

export const artifactContentQuery = strictObject({
  ...attemptSelector,
  file: text(1, 400).meta({ description: "Path of the artifact" }),
  length: z.int().min(1).optional().meta({ description: "Maximum number of bytes, from the beginning. Default: all" }),
})

export const artifactList = z
  .object({
    attempt: z.int().meta({ description: "Number of the attempt that stored the files. 0: the task has not run" }),
    items: z.array(z.object({ path: z.string(), bytes: z.int() })),
  })
  .meta({ id: "Artifacts" })
