// Files through which the engine and `ork exec` communicate, beside the log and the output under the attempt's prefix: `spec.json` tells
// what to run, `status.json` reports the state. Both sides validate them, because they may have different versions.

import { z } from "zod"
import { ATTEMPT_STATES } from "../../core/model/status.ts"
import { OUTPUT_FORMATS } from "../../core/model/workflow.ts"

const text = z.string()
const json = z.unknown()
const record = <Value extends z.ZodType>(value: Value) => z.record(z.string(), value)

export const SPEC_FILE = "spec.json"
export const STATUS_FILE = "status.json"
export const OUTPUT_FILE = "output.json"

/** Variable with the location of the spec: a key, or the address of the object. */
export const SPEC_VARIABLE = "TASK_SPEC_PATH"
/** Prefix of secret variables of the task: they are passed through the environment, never in the spec. */
export const SECRET_VARIABLE = "ORK_EXEC_SECRET_"

/** Interval between two heartbeats of `ork exec`. */
export const HEARTBEAT_MS = 10_000
/** Age of the last heartbeat from which on `ork exec` is taken for dead. */
export const STALE_MS = 60_000

const specFields = {
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
  /** Executor that `ork exec` uses. */
  executor: text,
  command: z
    .union([z.object({ shell: text, interpreter: z.array(text).optional() }), z.object({ argv: z.array(text) })])
    .nullable(),
  file: text.nullable(),
  function: text.nullable(),
  /** Hash of the bundle that contains `file`; null: `file` is in the working directory. */
  bundle: text.nullable().default(null),
  input: json,
  env: record(text),
  /** Names of the variables that are passed through the environment. */
  secret_env: z.array(text),
  /** null: the working directory of `ork exec`. */
  working_dir: text.nullable(),
  script_dir: text.nullable(),
  /** Large outputs of upstream tasks, by task name: keys of objects, relative to the folder of the spec. */
  upstream: record(text),
  timeout_ms: z.number().nullable(),
  grace_ms: z.number(),
  max_output_bytes: z.number(),
  output_format: z.enum(OUTPUT_FORMATS).optional(),
  max_log_bytes: z.number().optional(),
}

/** Names in `upstream` whose outputs belong to the input. */
const inputFiles = z.array(text)

const artifactFields = {
  /** Files that a successful attempt stores; null: none. */
  artifacts: z.object({ patterns: z.array(text), max_bytes: z.number() }).nullable(),
  /** Files of $ORK_ARTIFACTS with their keys, relative to the folder of the spec; null: there is no such folder. */
  upstream_artifacts: z.array(z.object({ path: text, key: text })).nullable(),
}

/** An older `ork exec` would ignore `input_files` and artifacts, so that a spec with them has a version that it rejects. */
export const execSpec = z.discriminatedUnion("version", [
  z.object({ version: z.literal(1), ...specFields }),
  z.object({ version: z.literal(2), ...specFields, input_files: inputFiles }),
  z.object({ version: z.literal(3), ...specFields, input_files: inputFiles, ...artifactFields }),
])
export type ExecSpec = z.infer<typeof execSpec>

export const execStatus = z.object({
  version: z.literal(1),
  status: z.enum(["running", ...ATTEMPT_STATES]),
  /** Increases with every write, so that a reader detects a live writer without comparing clocks. */
  beat: z.int(),
  heartbeat_at: z.iso.datetime(),
  started_at: z.iso.datetime().nullable(),
  finished_at: z.iso.datetime().nullable(),
  external_id: text.nullable(),
  progress: z.object({ fraction: z.number().nullable(), details: json }).nullable(),
  error: text.nullable(),
  exit_code: z.int().nullable(),
  /** Size of `output.json` after a success. */
  output_bytes: z.int().nullable(),
  usage: record(z.union([z.number(), text])),
  /** false: another attempt cannot succeed. */
  retryable: z.boolean().nullable(),
  retry_after_ms: z.number().nullable(),
})
export type ExecStatus = z.infer<typeof execStatus>
