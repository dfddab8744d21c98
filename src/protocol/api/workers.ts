// Schemas of the worker protocol: registration, claims by long poll, reports, logs, outputs; and the messages between a server and the
// workers that it pushes tasks to.

import { z } from "zod"
import { object, strictObject, text, uuid } from "./common.ts"
import { queueName } from "./jobs.ts"
import { artifactPathProblem, MAX_ARTIFACTS } from "../../core/model/artifacts.ts"
import { FUNCTION_NAME_HINT, isFunctionName } from "../../core/model/function.ts"
import { MAX_LABELS, capabilitiesProblem } from "../../core/routing/capabilities.ts"
import { ATTEMPT_STATES } from "../../core/model/status.ts"
import { OUTPUT_FORMATS } from "../../core/model/workflow.ts"

/** Maximum number of entries of a report. */
const MAX_ENTRIES = 1000
const MAX_CAPACITY = 10_000
export const MAX_WAIT_MS = 60_000
/** Maximum number of runs whose state a claim asks for. */
export const MAX_RUNS_ASKED = 50
/** Maximum size of a request with log frames. */
export const MAX_LOG_BYTES = 4 << 20

const label = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, {
  error: 'must be a label: at most 64 letters, digits, "_", "." and "-", beginning with a letter or digit',
})

const functionName = z.string().refine(isFunctionName, { error: `must be the name of a function: ${FUNCTION_NAME_HINT}` })

const worker = strictObject({
  name: text(1, 128),
  queues: z.array(queueName).max(64),
  labels: z.array(label).max(MAX_LABELS).default([]),
  handlers: z.array(queueName).max(64).default([]).meta({ description: "Queues whose jobs its handlers run" }),
  functions: z.array(functionName).max(1000).default([]).meta({ description: "Its registered functions" }),
  functions_only: z.boolean().default(false).meta({ description: "Run only these functions and its handlers" }),
  capacity: z.int().min(1).max(MAX_CAPACITY).meta({ description: "Maximum number of running tasks" }),
  version: text(1, 64).optional(),
})

export const newWorker = worker.superRefine((value, context) => {
  const problem = capabilitiesProblem(value)
  if (problem !== null) context.addIssue({ code: "custom", path: ["functions"], message: problem })
})

/** Version of the protocol that servers announce to workers. */
export const PROTOCOL = 2

export const registeredWorker = z
  .object({
    id: z.string(),
    token: z.string().meta({ description: "The worker's own key, which only this response shows" }),
    lease_ms: z.int(),
    heartbeat_ms: z.int(),
    protocol: z.int().optional().meta({ description: "2: a report may claim tasks, with `free`. Absent: it may not" }),
  })
  .meta({ id: "RegisteredWorker" })

export const workerParams = strictObject({ id: uuid })

/** The fence of an attempt, and the token that proves that the caller claimed it. */
const fence = { row: z.int().min(1), attempt_id: uuid, token: z.string().max(100) }

const stop = z.object({ attempt_id: z.string(), reason: z.enum(["cancel", "timeout"]) })
const stops = z.array(stop).meta({ description: "Attempts to stop" })

export const heartbeatBody = strictObject({})
export const heartbeat = z.object({ stop: stops }).meta({ id: "Heartbeat" })

export const claimBody = strictObject({
  free: z.int().min(0).max(MAX_CAPACITY),
  wait_ms: z.int().min(0).max(MAX_WAIT_MS).default(20_000),
  known: z
    .array(uuid)
    .max(2 * MAX_CAPACITY)
    .optional()
    .meta({ description: "Attempts that the worker has in flight. Claims that are missing here are released" }),
  stopping: z
    .array(uuid)
    .max(2 * MAX_CAPACITY)
    .default([])
    .meta({ description: "Attempts that the worker is already stopping" }),
  runs: z.array(uuid).max(MAX_RUNS_ASKED).default([]).meta({ description: "Runs that the worker has folders of" }),
})

export const assignment = z
  .object({
    row: z.int(),
    attempt_id: z.string(),
    token: z.string(),
    job: z.boolean(),
    base_dir: z.string().nullable().meta({ description: "null: the run's own folder on the worker" }),
    working_dir: z.string().nullable(),
    bundle: z.string().nullable().meta({ description: "Hash of the bundle with the initial files of the run's folder" }),
    upstream: z
      .object({ folder: z.string(), tasks: z.array(z.string()) })
      .nullable()
      .meta({
        description: "Tasks whose outputs the worker puts into $ORK_UPSTREAM. `folder` differs for outputs of other attempts",
      }),
    work: object.meta({ description: "The task with every expression resolved" }),
  })
  .meta({ id: "Assignment" })

export const claimReply = z
  .object({
    assignments: z.array(assignment),
    stop: stops,
    lost: z.array(z.string()).meta({ description: "Attempts that the worker no longer holds" }),
    closed: z.array(z.string()).meta({ description: "Runs of `runs` that have closed and whose hooks have finished" }),
    gone: z.array(z.string()).optional().meta({ description: "Runs of `closed` that were removed" }),
  })
  .meta({ id: "Claimed" })

const instantMs = z.number().min(0).max(8.64e15)
const error = z.string().max(65_536)

const usage = strictObject({
  maxRssBytes: z.number().optional(),
  cpuUserMs: z.number().optional(),
  cpuSystemMs: z.number().optional(),
  signal: z.string().max(20).optional(),
})

const artifactPath = z.string().superRefine((path, context) => {
  const problem = artifactPathProblem(path)
  if (problem !== null) context.addIssue({ code: "custom", message: problem })
})

export const attemptResult = strictObject({
  state: z.enum(ATTEMPT_STATES),
  started_at: instantMs.nullable(),
  finished_at: instantMs,
  output: z
    .union([strictObject({ inline: z.unknown() }), strictObject({ bytes: z.int().min(0) })])
    .optional()
    .meta({ description: "`bytes`: the size of an output that was sent to `/outputs` before" }),
  artifacts: z
    .array(strictObject({ path: artifactPath, bytes: z.int().min(0) }))
    .max(MAX_ARTIFACTS)
    .optional()
    .meta({ description: "Files that were sent to `/artifacts` before" }),
  error: error.optional(),
  exit_code: z.int().optional(),
  external_id: z.string().max(300).optional(),
  usage: usage.optional(),
  retryable: z.boolean().optional(),
  retry_after_ms: z.number().min(0).optional(),
})

const reportEntry = z.discriminatedUnion("kind", [
  strictObject({ ...fence, kind: z.literal("started"), at: instantMs, external_id: z.string().max(300).optional() }),
  strictObject({ ...fence, kind: z.literal("progress"), fraction: z.number().min(0).max(1).nullable(), details: z.unknown() }),
  strictObject({ ...fence, kind: z.literal("ended"), result: attemptResult }),
  strictObject({ ...fence, kind: z.literal("released") }),
])

export const reportBody = strictObject({
  now: instantMs.meta({ description: "Time of the worker's clock. All times are in milliseconds since the epoch" }),
  entries: z.array(reportEntry).min(1).max(MAX_ENTRIES),
  free: z
    .int()
    .min(0)
    .max(MAX_CAPACITY)
    .default(0)
    .meta({ description: "Claim up to this number of tasks after the commit. Only while no claim of the worker is in flight" }),
})

export const reportReply = z.object({
  refused: z.array(z.string()).meta({ description: "Attempts that the worker no longer holds" }),
  assignments: z.array(assignment).optional().meta({ description: "The claimed tasks, if the report had `free`" }),
})

export const logReply = z.object({
  logs: z.array(
    z.object({ attempt_id: z.string(), next: z.int().nullable().meta({ description: "Next offset. null: rejected" }) }),
  ),
})

export const attemptQuery = strictObject({ row: z.coerce.number().int().min(1), attempt_id: uuid })
export const upstreamQuery = strictObject({ ...attemptQuery.shape, task: z.string().max(600) })
export const newArtifactQuery = strictObject({ ...attemptQuery.shape, file: artifactPath })
export const upstreamArtifactQuery = strictObject({
  ...newArtifactQuery.shape,
  prefix: z
    .string()
    .max(800)
    .meta({ description: "Prefix of the attempt that stored the file, from `work.upstreamArtifacts`" }),
})
export const outputReply = z.object({ bytes: z.int() })

export const ATTEMPT_TOKEN_HEADER = "x-ork-attempt-token"

// -- pushed tasks ------------------------------------------------------------------------------------------------------

/** Body of `POST /execute`, which sends a task to a listening worker. */
export const executeBody = z.object({
  task_instance_id: z.string(),
  run_id: z.string(),
  task_id: z.string(),
  workflow: z.string().default(""),
  path: z.string().default("").meta({ description: "Indexes of the instance in its fan-outs, such as 1.2" }),
  parallel_index: z.int().nullable().default(null),
  parallel_count: z.int().nullable().default(null),
  logical_date: z.string().nullable().default(null),
  command: z.union([z.string(), z.array(z.string())]),
  input: z.unknown(),
  attempt: z.int(),
  token: z.string(),
  callback_url: z.string(),
  env: z.record(z.string(), z.string()).default({}),
  timeout_ms: z.number().nullable().default(null),
  output_format: z.enum(OUTPUT_FORMATS).optional(),
  /** The worker stops a task that no `/alive` names for this time: the server has died or has evicted the worker. */
  lease_ms: z.number().min(1).default(12_000),
})

/** Body of `POST /stop`, which stops a task. */
export const stopBody = z.object({ token: z.string() })

/** Body of `POST /alive`, which the server sends every few seconds. The reply names the tasks that the worker does not have. */
export const aliveBody = z.object({ tokens: z.array(z.string()).max(MAX_CAPACITY) })
export const aliveReply = z.object({ unknown: z.array(z.string()) })

/** Body of `POST /internal/task-result`, which reports the result of a task. */
export const taskResultBody = strictObject({
  task_instance_id: z.string().max(100),
  status: z
    .enum(["success", "failed", "lost", "SUCCESS", "FAILED"])
    .meta({ description: "`lost`: the worker was stopped. The task runs again, and this does not count as a retry" }),
  output: z.unknown().optional(),
  error: z.string().max(65_536).nullable().optional(),
  exit_code: z.int().nullable().optional(),
  worker_id: z.string().max(128).optional().meta({ description: "Name of the worker, which the task shows as its `worker`" }),
  log: z.string().max(600_000).optional().meta({ description: "The log of the task, or its end" }),
  token: z
    .string()
    .max(200)
    .optional()
    .meta({ description: "Token of the attempt. Can be sent as Authorization: Bearer TOKEN instead" }),
})
