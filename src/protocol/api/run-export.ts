// The format of an exported run: one JSON document with everything that is known about the run except for secrets, which are named only.

import { z } from "zod"
import { json, object } from "./common.ts"
import { run, task } from "./runs.ts"

export const EXPORT_FORMAT = "ork-run"

const attemptLog = z.object({
  attempt: z.int(),
  text: z.string(),
  cut: z.boolean().meta({ description: "The beginning is left out: only the last 256 KiB of a log are exported" }),
})

export const exportedTask = z.object({
  ...task.shape,
  output: json.meta({ description: "The whole output, also a large one" }),
  output_omitted: z.boolean().meta({ description: "The output is larger than 64 MiB, or the object store has lost it" }),
  logs: z.array(attemptLog),
})

export const runExport = z
  .object({
    format: z.literal(EXPORT_FORMAT),
    version: z.literal(1),
    exported_at: z.string(),
    run,
    definition: z.string().nullable().meta({ description: "The definition as it was written; null: it is not stored" }),
    workflow: z.looseObject({ nodes: z.array(object) }).meta({ description: "The compiled definition" }),
    bundle: z
      .object({ hash: z.string().regex(/^[0-9a-f]+$/), tar: z.string().meta({ description: "A tar archive in base64" }) })
      .nullable()
      .meta({ description: "The files of the version; null: it has none, or the key lacks the scope author" }),
    tasks: z.array(exportedTask),
  })
  .meta({ id: "RunExport" })
