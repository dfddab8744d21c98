// A job as the engine runs it: the node that was compiled from its `task`, under the job's own queue, priority and retry policy.

import type { BackoffStrategy, JobRetryPolicy } from "./jobs.ts"
import type { JsonObject } from "../model/json.ts"
import type { CompiledWorkflow, Node, RetryPolicy } from "../model/workflow.ts"

export interface RunnableJob {
  name: string
  queue: string
  retryPolicy: JobRetryPolicy
  /** A compiled node; null for jobs that a handler runs. */
  task: JsonObject | null
}

const BACKOFF = {
  FIXED: "fixed",
  LINEAR: "linear",
  EXPONENTIAL: "exponential",
} as const satisfies Record<BackoffStrategy, RetryPolicy["backoff"]>

/** Runs jobs that have no task of their own. */
export const HANDLER_EXECUTOR = "handler"

const HANDLER_NODE: Omit<Node, "name" | "queue" | "retry" | "lostRetries"> = {
  group: null,
  hook: null,
  executor: HANDLER_EXECUTOR,
  upstream: [],
  downstream: [],
  reads: [],
  rule: "all_success",
  gated: false,
  fields: {},
  env: {},
  timeoutMs: 3_600_000,
  startTimeoutMs: 300_000,
  labels: [],
  priority: null,
}

/** Alone in a workflow of its own, so that whatever runs tasks runs it. */
export const jobWorkflow = ({ name, queue, retryPolicy, task }: RunnableJob): CompiledWorkflow => {
  const node: Node = {
    ...(task === null ? HANDLER_NODE : (task as unknown as Node)),
    name,
    queue,
    retry: {
      maxAttempts: retryPolicy.max_attempts,
      backoff: BACKOFF[retryPolicy.backoff_strategy],
      baseDelayMs: retryPolicy.base_delay_seconds * 1000,
      maxDelayMs: retryPolicy.max_delay_seconds * 1000,
      jitter: false,
    },
    lostRetries: retryPolicy.max_attempts - 1,
  }
  return { format: 1, name: "", tags: [], params: [], schedules: [], notify: [], include: [], nodes: [node] }
}

/** What `decide` is told: every attempt before this one counts against the one budget, lost or failed. */
export const jobRetryCounts = (attempt: number): { failures: number; losses: number } => ({
  failures: attempt - 1,
  losses: attempt - 1,
})
