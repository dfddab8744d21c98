// Schemas of event and log streams: their queries and their entries.

import { z } from "zod"
import { EVENT_ID } from "../../core/model/event-id.ts"
import { JOB_STATUSES } from "../../core/rules/jobs/jobs.ts"
import { RUN_STATUSES, TASK_STATUSES } from "../../core/model/status.ts"
import { dateTime, strictObject } from "./common.ts"
import { instanceQuery, progress, waiting } from "./runs.ts"

const eventId = z.string().regex(EVENT_ID, { error: "must be the id of an event, such as 42.0" })

const after = eventId.optional().meta({ description: "Replaces the header Last-Event-ID for clients that cannot set it" })

export const eventQuery = strictObject({ after })
export const runEventQuery = strictObject({
  after,
  logs: z.boolean().optional().meta({ description: "Include new log lines as events `log`" }),
})

export const event = z
  .object({
    event: z.enum(["run", "task", "job"]),
    run_id: z.string().nullable().meta({ description: "null for jobs" }),
    job_id: z.string().optional(),
    name: z.string().nullable().optional().meta({ description: "Name of the job" }),
    queue: z.string().nullable().optional().meta({ description: "Queue of the job" }),
    task: z.string().nullable(),
    index: z.int().nullable(),
    path: z.string().nullable(),
    attempt: z.int().nullable(),
    status: z.enum([...new Set([...RUN_STATUSES, ...TASK_STATUSES, ...JOB_STATUSES])]),
    at: dateTime,
    error: z.string().optional(),
    available_at: dateTime.optional(),
    total: z.int().optional(),
    waiting: waiting.optional(),
    progress: progress.optional(),
  })
  .meta({ id: "Event" })

const range = {
  offset: z.int().optional().meta({ description: "First byte to read. Negative: from the end" }),
  follow: z.boolean().optional().meta({ description: "Follow the log until the task finishes" }),
}

const MAX_LENGTH = 4 << 20
/** Bytes of the raw log that one response has the times of. */
const MAX_TIMED = 1 << 20

const length = z
  .int()
  .min(1)
  .max(MAX_LENGTH)
  .optional()
  .meta({ description: "Maximum number of bytes, only for the raw log without follow" })

export const attemptSelector = {
  attempt: z.int().min(1).optional().meta({ description: "Number of the attempt. Default: the latest" }),
  ...instanceQuery,
}

export const logQuery = strictObject({ ...attemptSelector, ...range, length })
export const jobLogQuery = strictObject({ ...range, length })

const timesRange = {
  offset: z.int().default(0).meta({ description: "First byte of the raw log. Negative: from the end" }),
  length: z.int().min(1).max(MAX_TIMED).default(MAX_TIMED),
}

export const logTimesQuery = strictObject({ ...attemptSelector, ...timesRange })
export const jobLogTimesQuery = strictObject({ ...timesRange })

export const logTimes = z
  .object({
    size: z.int().meta({ description: "Size of the raw log in bytes" }),
    offset: z.int(),
    next_offset: z.int(),
    times: z
      .array(z.object({ offset: z.int(), at: dateTime, stream: z.enum(["stdout", "stderr"]) }))
      .meta({ description: "Each entry covers the bytes up to the next one. The first may begin before `offset`" }),
  })
  .meta({ id: "LogTimes" })

export const logLine = z
  .object({
    at: dateTime,
    stream: z.enum(["stdout", "stderr"]),
    line: z.string(),
    more: z.boolean().optional().meta({ description: "The line continues in the next entry" }),
  })
  .meta({ id: "LogLine" })
