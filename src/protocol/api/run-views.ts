// Schemas of run views, from which the web UI draws runs: the graph with the status of each task, the instances without input, output and
// error, and the grid of a workflow's latest runs. Entries are small, and pages are large.

import { z } from "zod"
import { ATTEMPT_STATES, RUN_STATUSES, TASK_STATUSES } from "../../core/model/status.ts"
import { dateTime, list, strictObject, uuid } from "./common.ts"
import { counts, label, waiting } from "./runs.ts"
import { graphTask } from "./workflows.ts"

const status = z.enum(TASK_STATUSES)

export const runGraph = z
  .object({
    run_id: z.string(),
    workflow: z.string(),
    version: z.int(),
    durable: z.boolean().meta({ description: "The run is one of a durable function, whose steps `/runs/{id}/steps` lists" }),
    tasks: z.array(
      z.object({
        ...graphTask.shape,
        status: status.meta({ description: "Status of the task over all its instances" }),
        counts: counts.meta({ description: "Number of instances by status. A group has none" }),
        started_at: dateTime.nullable(),
        finished_at: dateTime.nullable(),
      }),
    ),
  })
  .meta({ id: "RunGraph" })

const times = { dispatched_at: dateTime.nullable(), started_at: dateTime.nullable(), finished_at: dateTime.nullable() }

export const instance = z
  .object({
    name: z.string(),
    path: z.string(),
    label,
    status,
    attempt: z.int().min(0),
    available_at: dateTime.nullable(),
    waiting: waiting.shape.kind.nullable(),
    ...times,
    past: z
      .array(z.object({ attempt: z.int(), status: z.enum(ATTEMPT_STATES), ...times }))
      .meta({ description: "Attempts before this one, oldest first" }),
  })
  .meta({ id: "Instance" })

const MAX_INSTANCES = 2000

export const instanceList = list(instance)
export const instanceListQuery = strictObject({
  limit: z.int().min(1).max(MAX_INSTANCES).default(1000).meta({ description: "Number of entries in a page" }),
  cursor: z.string().max(400).optional().meta({ description: "`next_cursor` of the previous page" }),
})

export const gridQuery = strictObject({
  limit: z.int().min(1).max(50).default(25).meta({ description: "Number of runs" }),
  run: uuid.optional().meta({ description: "Include this run. If it is older than the latest runs, the grid begins with it" }),
})

const cell = z.object({
  status,
  total: z.int().optional().meta({ description: "Number of instances of a fan-out" }),
  failed: z.int().optional(),
  duration_ms: z.int().nullable(),
})

export const grid = z
  .object({
    workflow: z.string(),
    tasks: z
      .array(z.object({ name: z.string(), group: z.string().nullable(), fan_out: z.boolean(), hook: z.boolean() }))
      .meta({ description: "Tasks of the newest run's definition, then tasks that only older definitions have" }),
    runs: z
      .array(
        z.object({
          id: z.string(),
          number: z.int(),
          version: z.int(),
          status: z.enum(RUN_STATUSES),
          trigger: z.string(),
          logical_date: dateTime.nullable(),
          created_at: dateTime,
          started_at: dateTime.nullable(),
          finished_at: dateTime.nullable(),
          idle_ms: z.int(),
          cells: z.array(cell.nullable()).meta({
            description: "One cell for each of `tasks`. null: the run's definition lacks the task, or the task has no rows yet",
          }),
        }),
      )
      .meta({ description: "Newest first" }),
  })
  .meta({ id: "Grid" })
