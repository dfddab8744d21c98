// Nodes that no definition declares: jobs, functions of a program, and tasks that an executor runs outside the engine.

import type { Node } from "./workflow.ts"

/** Creates a node without dependencies, rules, retries and limits, except those in `fields`. */
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
