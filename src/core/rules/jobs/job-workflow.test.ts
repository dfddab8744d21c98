import { describe, expect, it } from "vitest"
import type { AttemptId } from "../../model/ids.ts"
import { decide } from "../changes/decide.ts"
import { jobRetryCounts, jobWorkflow } from "./job-workflow.ts"
import { BACKOFF_STRATEGIES, DEFAULT_JOB_RETRY, retryDelay } from "./jobs.ts"
import type { JsonObject } from "../../values/json.ts"
import { node } from "../../testing.ts"

const task = JSON.parse(JSON.stringify(node("job", { queue: "ignored", timeoutMs: 5 }))) as JsonObject

const job = { name: "resize", queue: "mail", retryPolicy: DEFAULT_JOB_RETRY, retry: null, timeoutMs: null, task }

const decided = (attempt: number, state: "failed" | "lost" | "timeout", retryPolicy = DEFAULT_JOB_RETRY) => {
  const { nodes } = jobWorkflow({ ...job, retryPolicy })
  const failures = Math.floor((attempt - 1) / 2)
  const counts = jobRetryCounts(job, { failures, losses: attempt - 1 - failures })
  const claim = { row: 1, attemptId: "a" as AttemptId, cancelling: false, ...counts }
  return decide(claim, nodes[0]!, { state, startedAt: null, finishedAt: 0 }, 0)
}

describe("jobWorkflow", () => {
  it("runs the task under the job's name, queue and retry policy", () => {
    const { nodes } = jobWorkflow(job)
    expect(nodes).toEqual([
      node("resize", {
        queue: "mail",
        timeoutMs: 5,
        retry: { maxAttempts: 3, backoff: "exponential", baseDelayMs: 10_000, maxDelayMs: 300_000, jitter: false },
        lostRetries: 2,
      }),
    ])
  })

  it.each(["failed", "lost", "timeout"] as const)("runs at most max_attempts times when attempts are %s", (state) => {
    expect(decided(1, state).kind).toBe("retry")
    expect(decided(2, state).kind).toBe("retry")
    expect(decided(3, state)).toMatchObject({ kind: "finish", status: "failed" })
    expect(decided(1, state, { ...DEFAULT_JOB_RETRY, max_attempts: 1 })).toMatchObject({ kind: "finish", status: "failed" })
  })

  it("follows `retry` and `timeoutMs` of the job, and does not count lost attempts as failures", () => {
    const retry = { maxAttempts: 2, backoff: "fixed", baseDelayMs: 7, maxDelayMs: 7, jitter: false } as const
    const [own] = jobWorkflow({ ...job, retry, timeoutMs: 9 }).nodes
    expect(own).toMatchObject({ retry, timeoutMs: 9, lostRetries: 3 })
    expect(jobRetryCounts({ retry }, { failures: 1, losses: 2 })).toEqual({ failures: 1, losses: 2 })
  })

  it("completes the node of a task that only names its function", () => {
    const [call] = jobWorkflow({ ...job, task: { executor: "function", function: "resize" } }).nodes
    expect(call).toMatchObject({ executor: "function", function: "resize", env: {}, timeoutMs: 3_600_000, labels: [] })
  })

  it.each(BACKOFF_STRATEGIES)("delays retries by the policy: %s", (backoff_strategy) => {
    const policy = { ...DEFAULT_JOB_RETRY, max_attempts: 10, backoff_strategy, max_delay_seconds: 25 }
    for (const attempt of [1, 2, 3, 4])
      expect(decided(attempt, "failed", policy)).toMatchObject({ delayMs: 1000 * retryDelay(policy, attempt) })
  })
})
