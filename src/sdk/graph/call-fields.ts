// Fields of a task of a workflow that calls a definition of a program, in a graph in code and in the schedules of `OrkClient`.

import type { TaskDefinition as TaskFields } from "../../core/model/definition.ts"
import { formatDuration } from "../../core/values/quantities.ts"
import { DEFAULT_PRIORITY, type RetryPolicy } from "../../core/model/workflow.ts"
import { type AnyTask, DEFAULT_TIMEOUT_MS } from "../definitions.ts"

/** Retry policy of a task of a definition without `retry`. */
const RETRY_IF_OMITTED: RetryPolicy = {
  maxAttempts: 1,
  backoff: "exponential",
  baseDelayMs: 1000,
  maxDelayMs: 300_000,
  jitter: false,
}

/** Returns the fields of a task that calls a function of the program, with the settings of its definition. */
export const functionFields = ({ functionName, retry, timeoutMs, queue, priority }: AnyTask): TaskFields => {
  const written = retryFields(retry)
  return {
    executor: "node",
    function: functionName,
    ...(written !== undefined && { retry: written }),
    ...(timeoutMs !== null && timeoutMs !== DEFAULT_TIMEOUT_MS && { timeout: formatDuration(timeoutMs) }),
    ...(queue !== "default" && { queue }),
    ...(priority !== DEFAULT_PRIORITY && { priority }),
  }
}

export const workflowFields = (workflow: string): TaskFields => ({ executor: "workflow", workflow })

export const retryFields = (policy: RetryPolicy): TaskFields["retry"] => {
  const { maxAttempts, backoff, baseDelayMs, maxDelayMs, jitter } = policy
  const fields = {
    ...(maxAttempts !== RETRY_IF_OMITTED.maxAttempts && { max_attempts: maxAttempts }),
    ...(backoff !== RETRY_IF_OMITTED.backoff && { backoff }),
    ...(baseDelayMs !== RETRY_IF_OMITTED.baseDelayMs && { base_delay: formatDuration(baseDelayMs) }),
    ...(maxDelayMs !== Math.max(RETRY_IF_OMITTED.maxDelayMs, baseDelayMs) && { max_delay: formatDuration(maxDelayMs) }),
    ...(jitter && { jitter }),
  }
  return Object.keys(fields).length === 0 ? undefined : fields
}
