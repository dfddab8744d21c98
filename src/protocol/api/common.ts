// Schemas that the requests and responses of the API share: strict objects, ids, instants, pages, the error. The same schemas validate
// requests and generate the OpenAPI document.

import { z } from "zod"
import { isDateText } from "../../core/time/cron.ts"
import { NAME } from "../../core/model/names.ts"
import { UUID } from "../../core/model/ids.ts"
import { DURATION_HINT, parseDuration } from "../../core/values/quantities.ts"
import { nearest } from "../../core/values/nearest.ts"

const MAX_SUGGESTIONS = 100

/**
 * Returns a schema of an object that rejects unknown fields. Its message has the nearest known field of each unknown one, line by line,
 * in the order of the issue's keys; definition/schema-issues.ts parses it.
 */
export const strictObject = <Shape extends z.ZodRawShape>(shape: Shape) => {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? issue.keys
            .slice(0, MAX_SUGGESTIONS)
            .map((key) => nearest(key, known) ?? "")
            .join("\n")
        : undefined,
  })
}

const CONTROL = /[\u0000-\u001f\u007f]/

/** Returns a schema of one line of text of `min` to `max` characters. */
export const text = (min: number, max: number) =>
  z
    .string()
    .refine(
      (value) => {
        const length = value.length > 2 * max ? value.length : [...value].length
        return length >= min && length <= max && !CONTROL.test(value) && value.isWellFormed()
      },
      { error: `must be ${min} to ${max} characters without control characters` },
    )
    .meta({ minLength: min, maxLength: max })

/** Task names; inside groups `group.task`, for hooks `on_failure.0`. */
export const TASK_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}(\.[A-Za-z0-9_-]{1,64}){0,8}$/
const PATH = /^\d{1,9}(\.\d{1,9}){0,8}$/

export const uuid = z
  .string()
  .toLowerCase()
  .regex(UUID, { error: "must be a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057" })
/** Schema of a run in an address. The route finds the run; a text that names none is an unknown run. */
export const runReference = z.string().max(200).meta({ description: "Id of the run, or `WORKFLOW#NUMBER` with `#` as %23" })
export const workflowName = z.string().regex(NAME, {
  error: 'must be a workflow name: at most 128 letters, digits, "_", "." and "-", beginning with a letter or digit',
})
export const taskName = z.string().regex(TASK_NAME, { error: "must be a task name such as load, or group.load" })
export const instancePath = z.string().regex(PATH, { error: "must be a path of indexes such as 3 or 1.2" })

const isInstant = (value: string): boolean => isDateText(value) && /^(19[7-9]|[2-9]\d\d)/.test(value)
const normalize = (value: string): string => (isInstant(value) ? new Date(value).toISOString() : value)

const NOT_A_DATE = "must be a day (2026-01-31) or an instant (2026-01-31T10:00:00Z)"

/** Schema of a day or an instant. Parses it to an instant in UTC with milliseconds. */
export const instant = z
  .string()
  .refine(isInstant, { error: NOT_A_DATE })
  .overwrite(normalize)
  .meta({ examples: ["2026-01-31T10:00:00.000Z"] })

const WITHOUT_ZONE = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?$/
const inUtc = (value: string): string => (WITHOUT_ZONE.test(value) ? `${value.replace(" ", "T")}Z` : value)

/** Schema of an `instant` that may lack the zone, which is UTC then. */
export const utcInstant = z
  .string()
  .overwrite(inUtc)
  .refine(isInstant, { error: NOT_A_DATE })
  .overwrite(normalize)
  .meta({ examples: ["2026-01-31T10:00:00.000Z"] })

/** Schema of a duration: seconds, or a text such as `90s`. `durationMs` parses it. */
export const duration = z
  .union([z.number(), z.string()], { error: `must be a duration: ${DURATION_HINT}` })
  .refine((value) => parseDuration(value) !== null, { error: `must be a duration: ${DURATION_HINT}` })
  .meta({ examples: ["90s"] })

/** Returns milliseconds. The schema has checked the value. */
export const durationMs = (value: string | number): number => parseDuration(value)!

/** Schema of a day or an instant, which stays as written: the day is one of the schedule's time zone. */
export const dayOrInstant = z
  .string()
  .refine(isInstant, { error: NOT_A_DATE })
  .meta({ examples: ["2026-01-31"] })

export const priority = z.int().min(1).max(10)
export const json = z.unknown().meta({ description: "Any JSON value" })
export const object = z.record(z.string(), z.unknown())

/** Schema of an instant in a response. */
export const dateTime = z.string().meta({ format: "date-time" })

export const DEFAULT_LIMIT = 20
export const MAX_LIMIT = 100

export const page = {
  limit: z.int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT).meta({ description: "Number of entries in a page" }),
  cursor: z.string().max(400).optional().meta({ description: "`next_cursor` of the previous page" }),
}

export const list = <Item extends z.ZodType>(item: Item) =>
  z.object({ items: z.array(item), next_cursor: z.string().nullable(), has_more: z.boolean() })

export const ERROR_CODES = {
  VALIDATION_ERROR: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  RATE_LIMITED: 429,
  INTERNAL: 500,
  UNAVAILABLE: 503,
} as const
export type ErrorCode = keyof typeof ERROR_CODES

export const problem = z
  .object({
    path: z.string(),
    message: z.string(),
    line: z.int().optional(),
    column: z.int().optional(),
    suggestion: z.string().optional(),
  })
  .meta({ id: "Problem" })

export const error = z
  .object({
    error: z.object({
      code: z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      details: z.array(problem).optional(),
    }),
  })
  .meta({ id: "Error" })
