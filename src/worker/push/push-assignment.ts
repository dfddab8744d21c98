// Converts a pushed task into an assignment for the process executor: without a run folder, with the timeout of the request.

import { bareNode } from "../tasks/bare-node.ts"
import type { Json } from "../../core/model/json.ts"
import type { Assignment } from "../../executors/executor.ts"
import type { executeBody } from "../../protocol/api/workers.ts"
import type { z } from "zod"

const MAX_OUTPUT_BYTES = 1 << 20

export const pushedAssignment = (
  pushed: z.output<typeof executeBody>,
  local: Pick<Assignment, "attemptId" | "workingDir" | "prefix" | "graceMs">,
): Assignment => ({
  ...local,
  runId: pushed.run_id,
  taskId: pushed.task_instance_id,
  attempt: pushed.attempt,
  workflow: "",
  task: pushed.task_id,
  path: "",
  parallelIndex: null,
  parallelCount: null,
  logicalDate: null,
  node: bareNode({ name: pushed.task_id, executor: "process", timeoutMs: pushed.timeout_ms }),
  input: (pushed.input ?? null) as Json,
  fields: {},
  command: typeof pushed.command === "string" ? { shell: pushed.command } : { argv: pushed.command },
  env: pushed.env,
  upstreamDir: null,
  maxOutputBytes: MAX_OUTPUT_BYTES,
  secrets: [],
})
