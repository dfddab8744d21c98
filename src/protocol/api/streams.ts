// Event and log streams: what is asked for, and what one entry looks like.

import { z } from "zod"
import { JOB_STATUSES } from "../../core/jobs.ts"
import { RUN_STATUSES, TASK_STATUSES } from "../../core/status.ts"
import { at, strict } from "./common.ts"
import { instanceQuery, progress, waiting } from "./runs.ts"

export const EVENT_ID = /^\d{1,15}\.\d{1,9}$/

const eventId = z.string().regex(EVENT_ID, { error: "must be the id of an event, such as 42.0" })

const after = eventId.optional().meta({ description: "the same as the header Last-Event-ID, for clients that cannot set it" })

export const eventQuery = strict({ after })
export const runEventQuery = strict({
  after,
  logs: z.boolean().optional().meta({ description: "log lines too, as events `log`, from now on" }),
})

export const event = z
  .object({
    event: z.enum(["run", "task", "job"]),
    run_id: z.string().nullable().meta({ description: "null for jobs" }),
    job_id: z.string().optional(),
    task: z.string().nullable(),
    index: z.int().nullable(),
    path: z.string().nullable(),
    attempt: z.int().nullable(),
    status: z.enum([...new Set([...RUN_STATUSES, ...TASK_STATUSES, ...JOB_STATUSES])]),
    at,
    error: z.string().optional(),
    available_at: at.optional(),
    total: z.int().optional(),
    waiting: waiting.optional(),
    progress: progress.optional(),
  })
  .meta({ id: "Event" })

const reading = {
  offset: z.int().optional().meta({ description: "in bytes; negative from the end" }),
  follow: z.boolean().optional().meta({ description: "until the task ends" }),
}

export const logQuery = strict({
  attempt: z.int().min(1).optional().meta({ description: "default: the latest" }),
  ...instanceQuery,
  ...reading,
})

export const jobLogQuery = strict({ ...reading })

export const logLine = z
  .object({
    at,
    stream: z.enum(["stdout", "stderr"]),
    line: z.string(),
    more: z.boolean().optional().meta({ description: "the line goes on in the next entry" }),
  })
  .meta({ id: "LogLine" })
