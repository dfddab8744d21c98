// From how an attempt ended to what becomes of its task: the one place that picks success, retry, failure or cancel.

import type { AttemptResult, Change, Fence } from "../model/change.ts"
import { type BackoffStrategy, retryDelay, shouldRetry } from "./jobs.ts"
import type { Node, RetryPolicy } from "../model/workflow.ts"

export interface AttemptHistory extends Fence {
  /** Failed and lost attempts since the last user's retry, this one not counted. */
  failures: number
  losses: number
  /** The run is being cancelled: nothing is tried again. */
  cancelling: boolean
}

const STRATEGY = {
  fixed: "FIXED",
  linear: "LINEAR",
  exponential: "EXPONENTIAL",
} as const satisfies Record<RetryPolicy["backoff"], BackoffStrategy>

/** Milliseconds before attempt `failed + 1`; jitter takes 50 to 100 % of the delay by `random` in [0, 1). */
export const retryDelayMs = (policy: RetryPolicy, failed: number, random: number): number => {
  const delay = retryDelay(
    {
      backoff_strategy: STRATEGY[policy.backoff],
      base_delay_seconds: policy.baseDelayMs,
      max_delay_seconds: policy.maxDelayMs,
    },
    failed,
  )
  return Math.round(policy.jitter ? delay * (0.5 + random / 2) : delay)
}

const lostFor = (node: Node, losses: number): boolean =>
  !shouldRetry({ attempt_count: losses, retry_policy: { max_attempts: node.lostRetries + 1 } })

export const decide = (task: AttemptHistory, node: Node, result: AttemptResult, random: number): Change => {
  const { row, attemptId, shardKey } = task
  const fence = { row, attemptId, ...(shardKey !== undefined && { shardKey }) }
  switch (result.state) {
    case "success":
      return { ...fence, kind: "finish", status: "success", result }
    case "cancelled":
      return { ...fence, kind: "finish", status: "cancelled", result }
    case "lost":
      if (task.cancelling) return { ...fence, kind: "finish", status: "cancelled", result }
      return lostFor(node, task.losses + 1)
        ? { ...fence, kind: "finish", status: "failed", result }
        : { ...fence, kind: "retry", delayMs: 0, lost: true, result }
    case "failed":
    case "timeout": {
      if (task.cancelling) return { ...fence, kind: "finish", status: "cancelled", result }
      const failed = task.failures + 1
      const again =
        result.retryable !== false &&
        shouldRetry({ attempt_count: failed, retry_policy: { max_attempts: node.retry.maxAttempts } })
      if (!again) return { ...fence, kind: "finish", status: "failed", result }
      const delayMs = result.retryAfterMs ?? retryDelayMs(node.retry, failed, random)
      return { ...fence, kind: "retry", delayMs, lost: false, result }
    }
    default:
      return result.state satisfies never
  }
}
