// Presents a job to the engine as a workflow of one node: the compiled `task` with the job's queue and retry policy.

import { BACKOFF, type JobRetryPolicy } from "./jobs.ts"
import { bareNode } from "../../model/bare-node.ts"
import type { JsonObject } from "../../values/json.ts"
import type { CompiledWorkflow, Node, RetryPolicy } from "../../model/workflow.ts"

export interface RunnableJob {
  name: string
  queue: string
  retryPolicy: JobRetryPolicy
  /** Retries as tasks have them; null: `retryPolicy` applies. */
  retry: RetryPolicy | null
  /** null: that of the task. */
  timeoutMs: number | null
  /** Fields of a compiled node that differ from `bareNode`; null for a job that a handler runs. */
  task: JsonObject | null
}

/** Executor of jobs without a task. */
export const HANDLER_EXECUTOR = "handler"

const TIMEOUT_MS = 3_600_000
const START_TIMEOUT_MS = 300_000

/** Lost retries of a job with `retry`, as tasks have them by default. */
const LOST_RETRIES = 3

export const jobWorkflow = ({ name, queue, retryPolicy, retry, timeoutMs, task }: RunnableJob): CompiledWorkflow => {
  const node = bareNode({
    executor: HANDLER_EXECUTOR,
    timeoutMs: TIMEOUT_MS,
    startTimeoutMs: START_TIMEOUT_MS,
    ...(task as Partial<Node> | null),
    name,
    queue,
    retry: retry ?? {
      maxAttempts: retryPolicy.max_attempts,
      backoff: BACKOFF[retryPolicy.backoff_strategy],
      baseDelayMs: retryPolicy.base_delay_seconds * 1000,
      maxDelayMs: retryPolicy.max_delay_seconds * 1000,
      jitter: false,
    },
    lostRetries: retry === null ? retryPolicy.max_attempts - 1 : LOST_RETRIES,
    ...(timeoutMs !== null && { timeoutMs }),
  })
  return { format: 1, name: "", tags: [], params: [], schedules: [], notify: [], include: [], nodes: [node] }
}

interface RetryCounts {
  failures: number
  losses: number
}

/** Returns the counts for `decide`. A job without `retry` has one budget: every earlier attempt counts, failed or lost. */
export const jobRetryCounts = ({ retry }: Pick<RunnableJob, "retry">, { failures, losses }: RetryCounts): RetryCounts =>
  retry === null ? { failures: failures + losses, losses: failures + losses } : { failures, losses }
