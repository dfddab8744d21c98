import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { AttemptResult, Change } from "../../model/change.ts"
import type { AttemptId } from "../../model/ids.ts"
import { clampChange } from "./clamp-change.ts"

const FENCE = { row: 1, attemptId: "attempt" as AttemptId }
const RESULT: AttemptResult = { state: "failed", startedAt: 1, finishedAt: 2, error: "no" }

const retry = (delayMs: number, result: Partial<AttemptResult> = {}): Change => ({
  ...FENCE,
  kind: "retry",
  delayMs,
  lost: false,
  result: { ...RESULT, ...result },
})

describe("clampChange", () => {
  it("returns a storable change without a copy", () => {
    const change = retry(1000, { exitCode: 3 })
    expect(clampChange(change)).toBe(change)
  })

  it("clamps the delay of a retry", () => {
    expect(clampChange(retry(1e303))).toMatchObject({ delayMs: 100 * 365 * 86_400_000 })
    expect(clampChange(retry(Number.NaN))).toMatchObject({ delayMs: 0 })
  })

  it("rounds instants with fractions of a millisecond", () => {
    expect(clampChange({ ...FENCE, kind: "started", at: 1000.6 })).toMatchObject({ at: 1001 })
    expect(clampChange(retry(0, { startedAt: 1.5, finishedAt: 2.25 }))).toMatchObject({
      result: { startedAt: 2, finishedAt: 2 },
    })
  })

  it("clamps the lifetime of a cached output", () => {
    const finish = (ttlMs: number): Change => ({
      ...FENCE,
      kind: "finish",
      status: "success",
      result: RESULT,
      cache: { key: "k", ttlMs },
    })
    expect(clampChange(finish(1e300))).toMatchObject({ cache: { key: "k", ttlMs: 100 * 365 * 86_400_000 } })
    expect(clampChange(finish(1.5))).toMatchObject({ cache: { key: "k", ttlMs: 2 } })
  })

  it("drops an exit code out of range and cuts a long error", () => {
    const { result } = clampChange(retry(0, { exitCode: 2 ** 40, error: "x".repeat(100_000) })) as Extract<
      Change,
      { kind: "retry" }
    >
    expect(result).not.toHaveProperty("exitCode")
    expect(result.error).toHaveLength(65_536)
  })

  it("returns valid dates and delays for any numbers", () => {
    const number = fc.oneof(fc.double(), fc.constantFrom(Infinity, -Infinity, Number.NaN, 1e303, -1))
    fc.assert(
      fc.property(number, number, number, (at, finishedAt, delayMs) => {
        const started = clampChange({ ...FENCE, kind: "started", at }) as Extract<Change, { kind: "started" }>
        const again = clampChange(retry(delayMs, { startedAt: at, finishedAt })) as Extract<Change, { kind: "retry" }>
        for (const ms of [started.at, again.result.startedAt!, again.result.finishedAt, 1.8e12 + again.delayMs])
          expect(() => new Date(ms).toISOString()).not.toThrow()
      }),
    )
  })
})
