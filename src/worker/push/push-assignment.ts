// A task that was pushed to this worker, as the process executor takes it: alone, without a run folder, with the timeout that came along.

import type { Json } from "../../core/model/json.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { Assignment } from "../../executors/executor.ts"
import type { executeBody } from "../../protocol/api/workers.ts"
import type { z } from "zod"

const MAX_OUTPUT_BYTES = 1 << 20

const nodeOf = (name: string, timeoutMs: number | null): Node => ({
  name,
  group: null,
  hook: null,
  executor: "process",
  upstream: [],
  downstream: [],
  reads: [],
  rule: "all_success",
  gated: false,
  fields: {},
  env: {},
  retry: { maxAttempts: 1, backoff: "fixed", baseDelayMs: 0, maxDelayMs: 0, jitter: false },
  lostRetries: 0,
  timeoutMs,
  startTimeoutMs: null,
  queue: "",
  labels: [],
  priority: null,
})

export const pushedAssignment = (
  pushed: z.output<typeof executeBody>,
  place: Pick<Assignment, "attemptId" | "workingDir" | "prefix" | "graceMs">,
): Assignment => ({
  ...place,
  runId: pushed.run_id,
  taskId: pushed.task_instance_id,
  attempt: pushed.attempt,
  workflow: "",
  task: pushed.task_id,
  path: "",
  parallelIndex: null,
  parallelCount: null,
  logicalDate: null,
  node: nodeOf(pushed.task_id, pushed.timeout_ms),
  input: (pushed.input ?? null) as Json,
  fields: {},
  command: typeof pushed.command === "string" ? { shell: pushed.command } : { argv: pushed.command },
  env: pushed.env,
  upstreamDir: null,
  maxOutputBytes: MAX_OUTPUT_BYTES,
  secrets: [],
})
