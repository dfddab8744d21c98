import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { AttemptResult } from "../../model/change.ts"
import { decide, retryDelayMs } from "./decide.ts"
import type { AttemptId } from "../../model/ids.ts"
import { ATTEMPT_STATES, type AttemptState } from "../../model/status.ts"
import { node } from "../../testing.ts"

const attemptId = "0198f000-0000-7000-8000-000000000001" as AttemptId
const result = (state: AttemptState, rest: Partial<AttemptResult> = {}): AttemptResult => ({
  state,
  startedAt: 1,
  finishedAt: 2,
  ...rest,
})
const policy = { maxAttempts: 3, backoff: "exponential", baseDelayMs: 1000, maxDelayMs: 5000, jitter: false } as const
const task = node("a", { retry: policy, lostRetries: 1 })
const claim = { row: 1, attemptId, failures: 0, losses: 0, cancelling: false }

describe("decide", () => {
  // Every state of an attempt × attempts left or not × run being cancelled or not.
  const table: [AttemptState, { left: boolean; cancelling: boolean }, string][] = [
    ["success", { left: true, cancelling: false }, "finish success"],
    ["success", { left: false, cancelling: false }, "finish success"],
    ["success", { left: true, cancelling: true }, "finish success"],
    ["success", { left: false, cancelling: true }, "finish success"],
    ["failed", { left: true, cancelling: false }, "retry"],
    ["failed", { left: false, cancelling: false }, "finish failed"],
    ["failed", { left: true, cancelling: true }, "finish cancelled"],
    ["failed", { left: false, cancelling: true }, "finish cancelled"],
    ["timeout", { left: true, cancelling: false }, "retry"],
    ["timeout", { left: false, cancelling: false }, "finish failed"],
    ["timeout", { left: true, cancelling: true }, "finish cancelled"],
    ["timeout", { left: false, cancelling: true }, "finish cancelled"],
    ["lost", { left: true, cancelling: false }, "retry"],
    ["lost", { left: false, cancelling: false }, "finish failed"],
    ["lost", { left: true, cancelling: true }, "finish cancelled"],
    ["lost", { left: false, cancelling: true }, "finish cancelled"],
    ["cancelled", { left: true, cancelling: false }, "finish cancelled"],
    ["cancelled", { left: false, cancelling: false }, "finish cancelled"],
    ["cancelled", { left: true, cancelling: true }, "finish cancelled"],
    ["cancelled", { left: false, cancelling: true }, "finish cancelled"],
  ]

  it("has a row in the table for every state", () => {
    expect(new Set(table.map(([state]) => state))).toEqual(new Set(ATTEMPT_STATES))
    expect(table).toHaveLength(ATTEMPT_STATES.length * 4)
  })

  it.each(table)("turns %s with %o into %s", (state, { left, cancelling }, expected) => {
    const spent = left ? {} : { failures: 2, losses: 1 }
    const change = decide({ ...claim, ...spent, cancelling }, task, result(state), 0)
    expect(change.kind === "finish" ? `finish ${change.status}` : change.kind).toBe(expected)
    expect(change).toMatchObject({ row: 1, attemptId })
  })

  it("retries only the failures of retry_on", () => {
    const picky = { ...task, retryOn: [75, "connection reset"] }
    const kindAfter = (rest: Partial<AttemptResult>) => decide(claim, picky, result("failed", rest), 0).kind
    expect(kindAfter({ exitCode: 75 })).toBe("retry")
    expect(kindAfter({ exitCode: 1, error: "exit code 1: connection reset by peer" })).toBe("retry")
    expect(kindAfter({ exitCode: 1, error: "exit code 1" })).toBe("finish")
    expect(kindAfter({ exitCode: 75, retryable: false })).toBe("finish")
    expect(decide(claim, picky, result("lost"), 0)).toMatchObject({ kind: "retry", lost: true })
  })

  it("skips the task after a failure of skip_on, unless its run is being cancelled", () => {
    const skippable = { ...task, skipOn: [99, "no data"] }
    expect(decide(claim, skippable, result("failed", { exitCode: 99 }), 0)).toMatchObject({ status: "skipped" })
    expect(decide(claim, skippable, result("failed", { error: "no data for this day" }), 0)).toMatchObject({
      status: "skipped",
    })
    expect(decide(claim, skippable, result("failed", { exitCode: 1 }), 0).kind).toBe("retry")
    expect(decide({ ...claim, cancelling: true }, skippable, result("failed", { exitCode: 99 }), 0)).toMatchObject({
      status: "cancelled",
    })
  })

  it("does not count a lost attempt as a failure, nor a failure as a loss", () => {
    expect(decide({ ...claim, failures: 2 }, task, result("lost"), 0)).toMatchObject({ kind: "retry", lost: true, delayMs: 0 })
    expect(decide({ ...claim, losses: 1 }, task, result("failed"), 0)).toMatchObject({ kind: "retry", lost: false })
  })

  it("does not retry a result that is not retryable", () => {
    expect(decide(claim, task, result("failed", { retryable: false }), 0)).toMatchObject({ kind: "finish", status: "failed" })
  })

  it("prefers the delay that the attempt asks for over the policy", () => {
    expect(decide(claim, task, result("failed", { retryAfterMs: 77 }), 0)).toMatchObject({ kind: "retry", delayMs: 77 })
  })
})

describe("retryDelayMs", () => {
  it("grows by its strategy up to the maximum", () => {
    const delays = (backoff: "fixed" | "linear" | "exponential"): number[] =>
      [1, 2, 3, 4].map((failed) => retryDelayMs({ ...policy, backoff }, failed, 0.5))
    expect(delays("fixed")).toEqual([1000, 1000, 1000, 1000])
    expect(delays("linear")).toEqual([1000, 2000, 3000, 4000])
    expect(delays("exponential")).toEqual([1000, 2000, 4000, 5000])
  })

  it("selects 50 to 100 % of the delay with jitter", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 0.999, noNaN: true }), fc.integer({ min: 1, max: 20 }), (random, failed) => {
        const plain = retryDelayMs(policy, failed, random)
        const jittered = retryDelayMs({ ...policy, jitter: true }, failed, random)
        expect(jittered).toBeGreaterThanOrEqual(Math.floor(plain / 2))
        expect(jittered).toBeLessThanOrEqual(plain)
      }),
    )
  })
})
