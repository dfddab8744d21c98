// Presents a job to the engine as a workflow of one node: the compiled `task` with the job's queue and retry policy.

import type { BackoffStrategy, JobRetryPolicy } from "./jobs.ts"
import type { JsonObject } from "../model/json.ts"
import type { CompiledWorkflow, Node, RetryPolicy } from "../model/workflow.ts"

export interface RunnableJob {
  name: string
  queue: string
  retryPolicy: JobRetryPolicy
  /** The compiled node; null for a job that a handler runs. */
  task: JsonObject | null
}

const BACKOFF = {
  FIXED: "fixed",
  LINEAR: "linear",
  EXPONENTIAL: "exponential",
} as const satisfies Record<BackoffStrategy, RetryPolicy["backoff"]>

/** Executor of jobs without a task. */
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

/** Returns the counts for `decide`. Jobs have one budget: every earlier attempt counts, failed or lost. */
export const jobRetryCounts = (attempt: number): { failures: number; losses: number } => ({
  failures: attempt - 1,
  losses: attempt - 1,
})
