// What the page draws a run from: its graph with how far each task is, its instances without what they carry, and the last runs of
// a workflow side by side. Answers are small for what they tell, and their pages large.

import { z } from "zod"
import { ATTEMPT_STATES, RUN_STATUSES, TASK_STATUSES } from "../../core/model/status.ts"
import { at, list, strict, uuid } from "./common.ts"
import { counts, waiting } from "./runs.ts"
import { graphTask } from "./workflows.ts"

const status = z.enum(TASK_STATUSES)

export const runGraph = z
  .object({
    run_id: z.string(),
    workflow: z.string(),
    version: z.int(),
    tasks: z.array(
      z.object({
        ...graphTask.shape,
        status: status.meta({ description: "of the task as a whole" }),
        counts: counts.meta({ description: "its instances; of a group nothing" }),
        started_at: at.nullable(),
        finished_at: at.nullable(),
      }),
    ),
  })
  .meta({ id: "RunGraph" })

const times = { dispatched_at: at.nullable(), started_at: at.nullable(), finished_at: at.nullable() }

export const instance = z
  .object({
    name: z.string(),
    path: z.string(),
    status,
    attempt: z.int().min(0),
    available_at: at.nullable(),
    waiting: waiting.shape.kind.nullable(),
    ...times,
    past: z
      .array(z.object({ attempt: z.int(), status: z.enum(ATTEMPT_STATES), ...times }))
      .meta({ description: "attempts before this one, oldest first" }),
  })
  .meta({ id: "Instance" })

const MAX_INSTANCES = 2000

export const instanceList = list(instance)
export const instanceListQuery = strict({
  limit: z.int().min(1).max(MAX_INSTANCES).default(1000).meta({ description: "entries in one answer" }),
  cursor: z.string().max(400).optional().meta({ description: "`next_cursor` of the answer before" }),
})

export const gridQuery = strict({
  limit: z.int().min(1).max(50).default(25).meta({ description: "how many runs" }),
  run: uuid.optional().meta({ description: "a run to be among them: when it is older than the last ones, those up to it" }),
})

const cell = z.object({
  status,
  total: z.int().optional().meta({ description: "instances of a fan-out" }),
  failed: z.int().optional(),
  duration_ms: z.int().nullable(),
})

export const grid = z
  .object({
    workflow: z.string(),
    tasks: z
      .array(z.object({ name: z.string(), group: z.string().nullable(), fan_out: z.boolean(), hook: z.boolean() }))
      .meta({ description: "of the newest run's definition, then what only earlier ones had" }),
    runs: z
      .array(
        z.object({
          id: z.string(),
          version: z.int(),
          status: z.enum(RUN_STATUSES),
          trigger: z.string(),
          logical_date: at.nullable(),
          created_at: at,
          started_at: at.nullable(),
          finished_at: at.nullable(),
          cells: z
            .array(cell.nullable())
            .meta({ description: "one for each of `tasks`; null: not in its definition, or not made" }),
        }),
      )
      .meta({ description: "newest first" }),
  })
  .meta({ id: "Grid" })
