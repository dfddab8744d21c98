// The files by which an engine and `ork exec` speak, beside the log and the output under an attempt's prefix: `spec.json` says what to
// run, `status.json` how far it is. Read on both sides with these schemas: either side may be of another version.

import { z } from "zod"
import { ATTEMPT_STATES } from "../../core/model/status.ts"

const text = z.string()
const json = z.unknown()
const record = <Value extends z.ZodType>(value: Value) => z.record(z.string(), value)

export const SPEC_FILE = "spec.json"
export const STATUS_FILE = "status.json"
export const OUTPUT_FILE = "output.json"

/** Where `ork exec` finds its spec: a key, or the whole address of the object. */
export const SPEC_VARIABLE = "TASK_SPEC_PATH"
/** Before the name of each variable of the task that is secret: those travel in the environment, never in the spec. */
export const SECRET_VARIABLE = "ORK_EXEC_SECRET_"

/** Between two beats of a live `ork exec`. */
export const HEARTBEAT_MS = 10_000
/** A beat older than this: whoever ran it is gone. */
export const STALE_MS = 60_000

export const execSpec = z.object({
  version: z.literal(1),
  run_id: text,
  task_id: text,
  task_name: text,
  workflow_name: text,
  attempt_id: text,
  attempt: z.int(),
  path: text,
  parallel_index: z.int().nullable(),
  parallel_count: z.int().nullable(),
  logical_date: text.nullable(),
  /** Which executor runs it there. */
  executor: text,
  command: z.union([z.object({ shell: text }), z.object({ argv: z.array(text) })]).nullable(),
  file: text.nullable(),
  function: text.nullable(),
  input: json,
  env: record(text),
  /** Names of those that come by the environment. */
  secret_env: z.array(text),
  /** null: where `ork exec` was started. */
  working_dir: text.nullable(),
  script_dir: text.nullable(),
  /** Large outputs of upstream tasks by task name: objects, as seen from the folder of the spec. */
  upstream: record(text),
  timeout_ms: z.number().nullable(),
  grace_ms: z.number(),
  max_output_bytes: z.number(),
})
export type ExecSpec = z.infer<typeof execSpec>

export const execStatus = z.object({
  version: z.literal(1),
  status: z.enum(["running", ...ATTEMPT_STATES]),
  /** Counts up with every write: a reader sees by it that the writer lives, whatever their clocks say. */
  beat: z.int(),
  heartbeat_at: z.iso.datetime(),
  started_at: z.iso.datetime().nullable(),
  finished_at: z.iso.datetime().nullable(),
  external_id: text.nullable(),
  progress: z.object({ fraction: z.number().nullable(), details: json }).nullable(),
  error: text.nullable(),
  exit_code: z.int().nullable(),
  /** Of a success: how large `output.json` is. */
  output_bytes: z.int().nullable(),
  usage: record(z.union([z.number(), text])),
  /** false: trying again cannot help. */
  retryable: z.boolean().nullable(),
  retry_after_ms: z.number().nullable(),
})
export type ExecStatus = z.infer<typeof execStatus>
