// Schemas of queues, workers, keys, the audit log, and the state of the server.

import { z } from "zod"
import { WORKFLOW_PATTERN } from "../../core/settings/workflow-limits.ts"
import { DURATION_HINT, parseDuration } from "../../core/values/quantities.ts"
import { dateTime, list, page, strictObject, text, uuid, workflowName } from "./common.ts"
import { queueName } from "./jobs.ts"

const KEY_SCOPES = ["read", "trigger", "author", "worker", "admin"] as const

// -- queues --------------------------------------------------------------------------------------------------------------------

const rate = strictObject({ limit: z.int().min(1).max(1_000_000), period_seconds: z.number().min(0.001).max(86_400) })

export const queue = z
  .object({
    name: z.string(),
    concurrency: z.int().nullable(),
    rate_limit: z.object({ limit: z.int(), period_seconds: z.number() }).nullable(),
    paused: z.boolean(),
    ready: z.int(),
    running: z.int(),
    oldest_ready_seconds: z.number().nullable(),
    ended_per_minute: z
      .int()
      .nullable()
      .meta({ description: "Tasks and jobs that finished on this server in the last minute" }),
  })
  .meta({ id: "Queue" })

export const queues = z.object({ items: z.array(queue) })
export const queueParams = strictObject({ name: queueName })
export const queueSettings = strictObject({
  concurrency: z
    .int()
    .min(1)
    .max(1_000_000)
    .nullable()
    .optional()
    .meta({ description: "Maximum number of running tasks. null: no limit" }),
  rate_limit: rate.nullable().optional().meta({ description: "Maximum number of starts in a period. null: no limit" }),
  paused: z.boolean().optional(),
})

// -- workers -------------------------------------------------------------------------------------------------------------------

export const worker = z
  .object({
    id: z.string(),
    kind: z
      .enum(["server", "worker", "run", "push"])
      .meta({ description: "`push`: a worker that this server pushes tasks to; its id is its address" }),
    name: z.string(),
    run_id: z.string().nullable(),
    alive: z.boolean(),
    lease_until: dateTime,
    last_seen_at: dateTime,
    queues: z
      .array(z.string())
      .nullable()
      .meta({ description: "Queues that it claims from. `*`: all. null: only its own run" }),
    labels: z.array(z.string()).nullable().meta({ description: "Its labels" }),
    functions: z.array(z.string()).nullable().meta({ description: "Its registered functions" }),
    capacity: z.int().nullable().meta({ description: "Maximum number of running tasks" }),
    running: z.int(),
    version: z.string().nullable(),
  })
  .meta({ id: "Worker" })

export const workers = z.object({ items: z.array(worker) })

const duration = z
  .union([z.string(), z.number()])
  .refine((value) => parseDuration(value) !== null, { error: `must be ${DURATION_HINT}` })

// -- keys and audit --------------------------------------------------------------------------------------------------------------

export const key = z
  .object({
    id: z.string(),
    name: z.string(),
    scopes: z.array(z.enum(KEY_SCOPES)),
    queues: z.array(z.string()).nullable().meta({ description: "Queues that workers of this key may serve. null: all" }),
    workflows: z
      .array(z.string())
      .nullable()
      .meta({ description: "Patterns of the names of the workflows that the key may see and change. null: all" }),
    tags: z.array(z.string()).nullable().meta({ description: "Tags, of which these workflows must have one. null: any" }),
    created_at: dateTime,
    created_by: z.string().nullable().meta({ description: "Name of the key or user that created it" }),
    last_used_at: dateTime.nullable(),
    expires_at: dateTime.nullable().meta({ description: "null: does not expire" }),
  })
  .meta({ id: "Key" })

export const newKey = strictObject({
  name: text(1, 128),
  scopes: z
    .array(z.enum(KEY_SCOPES))
    .refine((scopes) => scopes.length > 0, { error: `must name at least one of ${KEY_SCOPES.join(", ")}` }),
  queues: z.array(queueName).min(1).max(64).optional().meta({ description: "Queues that its workers may serve. Default: all" }),
  workflows: z
    .array(z.string().regex(WORKFLOW_PATTERN, { error: "must be the name of a workflow, in which * stands for any text" }))
    .min(1)
    .max(64)
    .optional()
    .meta({ description: "Limits the key to workflows with these names, such as `sales-*`. Default: all" }),
  tags: z.array(text(1, 128)).min(1).max(64).optional().meta({
    description: "Limits the key to workflows with one of these tags. Default: all",
  }),
  expires_in: duration.optional().meta({ description: "Default: the key does not expire" }),
}).refine(({ scopes, workflows, tags }) => !scopes.includes("worker") || (workflows === undefined && tags === undefined), {
  path: ["workflows"],
  error: "does not limit the scope worker; limit its queues instead",
})

export const keyRotation = strictObject({
  overlap: duration.default("0s").meta({ description: "Time for which the old secret is accepted too" }),
})

export const createdKey = z
  .object({ ...key.shape, key: z.string().meta({ description: "The key, which only this response shows" }) })
  .meta({ id: "CreatedKey" })

export const keys = z.object({ items: z.array(key) })
export const keyParams = strictObject({ id: uuid })

export const auditEntry = z
  .object({
    id: z.int(),
    at: dateTime,
    key_id: z.string().nullable().meta({ description: "null: the server's own key, a user, or Ork itself" }),
    actor: z.string().nullable().meta({ description: "Name of the key or user. null: Ork itself, or a caller without a key" }),
    subject: z
      .string()
      .nullable()
      .meta({ description: "The OpenID provider's id of the user, whose name may not be unique. null: no user" }),
    address: z.string().nullable().meta({ description: "Address that the request came from" }),
    action: z.string(),
    target: z.string(),
    result: z.string().nullable().meta({ description: "`ok`, or the error code of a refusal" }),
    details: z.string().nullable(),
    request: z
      .string()
      .nullable()
      .meta({ description: "Id of the request, which has one entry. null: a refusal, or no request" }),
    hash: z
      .string()
      .nullable()
      .meta({ description: "SHA-256 over the hash of the entry before it and the fields of this one" }),
  })
  .meta({ id: "AuditEntry" })

export const change = z
  .object({
    at: dateTime,
    by: z.string().nullable().meta({ description: "Name of the key or user. null: Ork itself" }),
    action: z.string().meta({ description: "The action in the audit log, such as `run.cancel`" }),
    task: z.string().nullable().meta({ description: "Task of the run that was changed. null: the whole" }),
    details: z.string().nullable(),
  })
  .meta({ id: "Change" })

export const changeList = list(change)

export const auditList = list(auditEntry)
export const auditQuery = strictObject({
  ...page,
  after: z.int().min(0).optional().meta({ description: "List the entries after this id, oldest first" }),
})

// -- the server ------------------------------------------------------------------------------------------------------------------

export const health = z
  .object({
    status: z.literal("ok"),
    version: z.string(),
    proofs: z
      .array(z.string())
      .optional()
      .meta({ description: "Proofs that the server has the key of its data folder, for the nonce and each of its addresses" }),
  })
  .meta({ id: "Health" })

export const healthQuery = strictObject({
  nonce: z
    .string()
    .regex(/^[0-9a-f]{32,64}$/)
    .optional()
    .meta({ description: "A random text of 32 to 64 hexadecimal digits, for which the server proves its identity" }),
})

export const ready = z
  .object({ status: z.literal("ready"), store: z.literal("ok"), objects: z.literal("ok") })
  .meta({ id: "Ready" })

const counts = z.array(z.int())
const values = z.array(z.number().nullable())

const series = z
  .object({
    from: dateTime.meta({ description: "Time of the first entry" }),
    success: counts.meta({ description: "Attempts that succeeded" }),
    failed: counts.meta({ description: "Attempts that finished in any other way" }),
    dispatch_p50_ms: values.meta({ description: "Time from the creation of a run to the start of its first tasks" }),
    dispatch_p95_ms: values,
    ready: values.meta({ description: "Ready tasks in all queues at the end of the minute" }),
    running: values,
  })
  .meta({ id: "Series", description: "One entry per minute, oldest first" })

export const stats = z
  .object({
    version: z.string(),
    store: z.enum(["sqlite", "postgres"]),
    objects: z.enum(["file", "s3", "gcs"]),
    started_at: dateTime,
    uptime_seconds: z.number(),
    runs: z.object({ pending: z.int(), running: z.int() }).meta({ description: "Runs that have not ended" }),
    workers: z.object({ alive: z.int(), dead: z.int() }),
    queues: z.object({ ready: z.int(), running: z.int(), oldest_ready_seconds: z.number().nullable() }),
    database_bytes: z.int(),
    objects_bytes: z.int().nullable().meta({ description: "Size of all logs and outputs. null: unknown" }),
    streams: z.int().meta({ description: "Open event and log streams of this server" }),
    series: series.nullable().meta({ description: "null unless requested" }),
  })
  .meta({ id: "Stats" })

export const statsQuery = strictObject({
  series: z.boolean().optional().meta({ description: "Include the activity of this server by the minute for the last day" }),
})

// -- sign-in --------------------------------------------------------------------------------------------------------------------

/** A page of the web UI, never another address. */
const uiPage = z
  .string()
  .max(300)
  .regex(/^\/ui\/[A-Za-z0-9_.\-/]*$/, { error: "must be a page of the web UI, such as /ui/runs" })

export const tokenQuery = strictObject({
  token: text(1, 200).optional(),
  page: uiPage.optional().meta({ description: "Page to show then. Default: the first page" }),
})
export const newSignInLink = strictObject({ page: uiPage.default("/ui/") })
export const signInLink = z
  .object({
    path: z.string().meta({ description: "Path of the link on this server. Works once" }),
    expires_at: dateTime,
  })
  .meta({ id: "SignInLink" })
export const signInMethods = z.object({ oidc: z.boolean() }).meta({ id: "SignInMethods" })
/** The provider adds parameters of its own. */
export const answerQuery = z.looseObject({})
export const signInBody = strictObject({ key: text(1, 1000) })

export const sessionQuery = strictObject({ workflow: workflowName.optional() })

export const session = z
  .object({
    key_id: z.string().nullable().meta({ description: "null: the server's own key, or a user" }),
    user: z.string().nullable().meta({ description: "Name of the user. null: a key" }),
    name: z.string().meta({ description: "Name of the key or user, as views show it" }),
    scopes: z
      .array(z.enum(KEY_SCOPES))
      .meta({ description: "Scopes for the workflow of the query. Without one: scopes for at least some workflows" }),
    server_scopes: z
      .array(z.enum(KEY_SCOPES))
      .meta({ description: "Scopes for all workflows and for what belongs to none: jobs, queues, workers, keys" }),
    version: z.string().meta({ description: "Version of the server" }),
  })
  .meta({ id: "Session" })
