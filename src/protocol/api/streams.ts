// Event and log streams: what is asked for, and what one entry looks like.

import { z } from "zod"
import { JOB_STATUSES } from "../../core/rules/jobs.ts"
import { RUN_STATUSES, TASK_STATUSES } from "../../core/model/status.ts"
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

const MAX_LENGTH = 4 << 20
/** Of the raw log that one answer tells the times of. */
const MAX_TIMED = 1 << 20

const part = z.int().min(1).max(MAX_LENGTH).optional().meta({ description: "bytes at most; only of the raw log as it stands" })

const whichAttempt = {
  attempt: z.int().min(1).optional().meta({ description: "default: the latest" }),
  ...instanceQuery,
}

export const logQuery = strict({ ...whichAttempt, ...reading, length: part })
export const jobLogQuery = strict({ ...reading, length: part })

const timed = {
  offset: z.int().default(0).meta({ description: "in bytes of the raw log; negative from the end" }),
  length: z.int().min(1).max(MAX_TIMED).default(MAX_TIMED),
}

export const logTimesQuery = strict({ ...whichAttempt, ...timed })
export const jobLogTimesQuery = strict({ ...timed })

export const logTimes = z
  .object({
    size: z.int().meta({ description: "of the raw log, in bytes" }),
    offset: z.int(),
    next_offset: z.int(),
    times: z
      .array(z.object({ offset: z.int(), at, stream: z.enum(["stdout", "stderr"]) }))
      .meta({ description: "each up to the next; the first may begin before `offset`" }),
  })
  .meta({ id: "LogTimes" })

export const logLine = z
  .object({
    at,
    stream: z.enum(["stdout", "stderr"]),
    line: z.string(),
    more: z.boolean().optional().meta({ description: "the line goes on in the next entry" }),
  })
  .meta({ id: "LogLine" })
