import { describe, expect, it } from "vitest"
import { availableStarts, nextStartMs, openBucket, refill, tokenWaitMs } from "./queue-budget.ts"

const rate = { limit: 10, periodMs: 1000 }

describe("a token bucket", () => {
  it("fills evenly, up to its limit", () => {
    expect(refill(rate, 0, 100)).toBe(1)
    expect(refill(rate, 0.5, 250)).toBe(3)
    expect(refill(rate, 9, 60_000)).toBe(10)
  })

  it("gains and loses nothing when the clock goes back", () => {
    expect(refill(rate, 3, -5000)).toBe(3)
  })

  it("has a whole token exactly when the wait for it is over", () => {
    for (const tokens of [0, 0.25, 0.999, 1, 5]) {
      const wait = tokenWaitMs(rate, tokens)
      expect(refill(rate, tokens, wait)).toBeGreaterThanOrEqual(1)
      if (wait > 0) expect(refill(rate, tokens, wait - 1)).toBeLessThan(1)
    }
  })

  it("exists only for a queue with a rate", () => {
    expect(openBucket({ limit: null, periodMs: null }, 5, 100)).toBeNull()
    expect(openBucket(rate, 5, 100)).toEqual({ ...rate, tokens: 6 })
  })
})

describe("a queue", () => {
  const open = (tokens: number) => ({ paused: false, bucket: { ...rate, tokens } })

  it("starts nothing while it is paused", () => {
    expect(availableStarts({ paused: true, bucket: null }, 5)).toBe(0)
  })

  it("starts as many rows as it has free slots and whole tokens", () => {
    expect(availableStarts({ paused: false, bucket: null }, Number.POSITIVE_INFINITY)).toBe(Number.POSITIVE_INFINITY)
    expect(availableStarts(open(2.9), 5)).toBe(2)
    expect(availableStarts(open(9), 5)).toBe(5)
  })

  it("reports a wait only when its rate holds it back", () => {
    expect(nextStartMs(open(0.5))).toBe(50)
    expect(nextStartMs(open(1))).toBeNull()
    expect(nextStartMs({ ...open(0), paused: true })).toBeNull()
    expect(nextStartMs({ paused: false, bucket: null })).toBeNull()
  })
})
