// Schemas of durable functions: the steps of a run, and signals to it.

import { z } from "zod"
import { isReservedSignal, SIGNAL_NAME_HINT } from "../../core/model/function-signals.ts"
import { dateTime, json, strictObject, text, uuid } from "./common.ts"
import { outputObject } from "./runs.ts"

const signalName = text(1, 255).refine((name) => !isReservedSignal(name), { error: SIGNAL_NAME_HINT })

export const signalParams = strictObject({ id: uuid, name: signalName })

export const signalBody = strictObject({
  payload: json.optional(),
  key: text(1, 255).optional().meta({ description: "A second signal of this name with the same key is ignored" }),
})

export const signalSent = z
  .object({ sent: z.boolean().meta({ description: "False when a signal with the same key was sent before" }) })
  .meta({ id: "SignalSent" })

export const step = z
  .object({
    name: z.string(),
    occurrence: z.int().meta({ description: "Counts the steps of this name, from 0" }),
    position: z.int().meta({ description: "Counts the steps of the function in the order in which they began" }),
    kind: z.enum(["run", "sleep", "wait", "call", "tx", "approval", "value", "patch"]),
    state: z.enum(["waiting", "success", "failed"]),
    failures: z.int(),
    output: json,
    output_object: outputObject.nullable(),
    error: z.string().nullable(),
    until: dateTime.nullable().meta({ description: "When a waiting step goes on by itself" }),
    child: z.string().nullable().meta({ description: "Id of the job or run that the step has started" }),
    child_kind: z.enum(["job", "run"]).nullable(),
    message: z.string().nullable().meta({ description: "What an approval is about" }),
    default: z
      .enum(["approve", "reject"])
      .nullable()
      .meta({ description: "The answer to an approval that nobody gives in time" }),
    started_at: dateTime,
    finished_at: dateTime.nullable(),
  })
  .meta({ id: "Step" })

export const stepList = z.object({ items: z.array(step) }).meta({ id: "StepList" })
