import { describe, expect, it } from "vitest"
import type { AttemptId } from "../model/ids.ts"
import { decide } from "./decide.ts"
import { jobRetryCounts, jobWorkflow } from "./job-node.ts"
import { BACKOFF_STRATEGIES, DEFAULT_JOB_RETRY, retryDelay } from "./jobs.ts"
import type { JsonObject } from "../model/json.ts"
import { node } from "../testing.ts"

const task = JSON.parse(JSON.stringify(node("job", { queue: "ignored", timeoutMs: 5 }))) as JsonObject

const decided = (attempt: number, state: "failed" | "lost" | "timeout", retryPolicy = DEFAULT_JOB_RETRY) => {
  const { nodes } = jobWorkflow({ name: "resize", queue: "mail", retryPolicy, task })
  const claim = { row: 1, attemptId: "a" as AttemptId, cancelling: false, ...jobRetryCounts(attempt) }
  return decide(claim, nodes[0]!, { state, startedAt: null, finishedAt: 0 }, 0)
}

describe("jobWorkflow", () => {
  it("runs the task under the job's name, queue and retry policy", () => {
    const { nodes } = jobWorkflow({ name: "resize", queue: "mail", retryPolicy: DEFAULT_JOB_RETRY, task })
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

  it.each(BACKOFF_STRATEGIES)("delays retries by the policy: %s", (backoff_strategy) => {
    const policy = { ...DEFAULT_JOB_RETRY, max_attempts: 10, backoff_strategy, max_delay_seconds: 25 }
    for (const attempt of [1, 2, 3, 4])
      expect(decided(attempt, "failed", policy)).toMatchObject({ delayMs: 1000 * retryDelay(policy, attempt) })
  })
})
