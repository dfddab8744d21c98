// A workflow node for an executor outside the engine.

import type { Node } from "../../core/model/workflow.ts"

/** Creates a node with the fields that executors read; the engine applies all others. */
export const bareNode = (fields: Pick<Node, "name" | "executor" | "timeoutMs"> & Partial<Node>): Node => ({
  group: null,
  hook: null,
  upstream: [],
  downstream: [],
  reads: [],
  rule: "all_success",
  gated: false,
  fields: {},
  env: {},
  retry: { maxAttempts: 1, backoff: "fixed", baseDelayMs: 0, maxDelayMs: 0, jitter: false },
  lostRetries: 0,
  startTimeoutMs: null,
  queue: "",
  labels: [],
  priority: null,
  ...fields,
})
