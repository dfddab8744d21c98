// Turns the result of an attempt into a change of its task. It alone chooses between success,
// retry, failure, skip and cancel; amend-change.ts may replace the change when a stop was requested.

import type { AttemptResult, Change, ChangeBase } from "../../model/change.ts"
import { backoffDelay, shouldRetry } from "../jobs/jobs.ts"
import { COMMAND_CONDITION, type WaitingOn } from "../../model/waiting-on.ts"
import type { FailurePattern, Node, RetryPolicy } from "../../model/workflow.ts"

export interface AttemptHistory extends Omit<ChangeBase, "auditEntry"> {
  /** Failed and lost attempts before this one, in this generation of the run. */
  failures: number
  losses: number
  /** The run is being cancelled: nothing is retried. */
  cancelling: boolean
}

/** Returns the delay in milliseconds after `failed` failed attempts. With jitter, `random` in [0, 1) selects 50 to 100 % of it. */
export const retryDelayMs = (policy: RetryPolicy, failed: number, random: number): number => {
  const delay = backoffDelay(policy, failed)
  return Math.round(policy.jitter ? delay * (0.5 + random / 2) : delay)
}

const retriesLoss = (node: Node, losses: number): boolean =>
  shouldRetry({ attempt_count: losses, retry_policy: { max_attempts: node.lostRetries + 1 } })

const retriesFailure = (node: Node, failures: number): boolean =>
  shouldRetry({ attempt_count: failures, retry_policy: { max_attempts: node.retry.maxAttempts } })

const matches = (patterns: readonly FailurePattern[], { exitCode, error = "" }: AttemptResult): boolean =>
  patterns.some((pattern) => (typeof pattern === "number" ? pattern === exitCode : error.includes(pattern)))

const isRetryable = ({ retryOn }: Node, result: AttemptResult): boolean =>
  result.retryable !== false && (retryOn === undefined || matches(retryOn, result))

const isSkipped = ({ skipOn, softFail }: Node, result: AttemptResult): boolean =>
  (softFail === true && result.state === "timeout") || (skipOn !== undefined && matches(skipOn, result))

/** Exit codes of shells for a command that cannot be executed, and for one that does not exist. */
const BROKEN_COMMAND = [126, 127]

/** Returns true when the command of a wait ran and said no. */
const isNotYet = ({ state, exitCode }: AttemptResult): boolean =>
  state === "failed" && exitCode !== undefined && !BROKEN_COMMAND.includes(exitCode)

/**
 * Returns the wait for the next check, due at once: only the store knows how long the attempt has waited, from which the time of the
 * next check follows.
 */
const nextCheck = (
  { everyMs }: NonNullable<Node["wait"]>,
  { error }: AttemptResult,
): { waitingOn: WaitingOn; delayMs: number } => ({
  waitingOn: {
    kind: "condition",
    condition: COMMAND_CONDITION,
    everyMs,
    ...(error !== undefined && { last: error }),
    checked: true,
  },
  delayMs: 0,
})

export const decide = (history: AttemptHistory, node: Node, result: AttemptResult, random: number): Change => {
  const { row, attemptId, shardKey, cancelling } = history
  const fence = { row, attemptId, ...(shardKey !== undefined && { shardKey }) }
  switch (result.state) {
    case "success":
      return { ...fence, kind: "finish", status: "success", result }
    case "cancelled":
      return { ...fence, kind: "finish", status: "cancelled", result }
    case "lost":
      if (cancelling) return { ...fence, kind: "finish", status: "cancelled", result }
      return retriesLoss(node, history.losses + 1)
        ? { ...fence, kind: "retry", delayMs: 0, lost: true, result }
        : { ...fence, kind: "finish", status: "failed", result }
    case "failed":
    case "timeout": {
      if (cancelling) return { ...fence, kind: "finish", status: "cancelled", result }
      if (isSkipped(node, result)) return { ...fence, kind: "finish", status: "skipped", result }
      if (node.wait !== undefined && isNotYet(result)) return { ...fence, kind: "wait", ...nextCheck(node.wait, result) }
      const failures = history.failures + 1
      if (!isRetryable(node, result) || !retriesFailure(node, failures)) {
        return { ...fence, kind: "finish", status: "failed", result }
      }
      const delayMs = result.retryAfterMs ?? retryDelayMs(node.retry, failures, random)
      return { ...fence, kind: "retry", delayMs, lost: false, result }
    }
    default:
      return result.state satisfies never
  }
}
