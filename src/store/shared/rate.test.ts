import { expect, it } from "vitest"
import { refill, tokenWaitMs } from "./rate.ts"

const rate = { limit: 10, periodMs: 1000 }

it("tokens come evenly, up to the limit", () => {
  expect(refill(rate, 0, 100)).toBe(1)
  expect(refill(rate, 0.5, 250)).toBe(3)
  expect(refill(rate, 9, 60_000)).toBe(10)
})

it("a clock that went back gives none and takes none", () => {
  expect(refill(rate, 3, -5000)).toBe(3)
})

it("the wait for a token ends when there is one", () => {
  for (const tokens of [0, 0.25, 0.999, 1, 5]) {
    const wait = tokenWaitMs(rate, tokens)
    expect(refill(rate, tokens, wait)).toBeGreaterThanOrEqual(1)
    if (wait > 0) expect(refill(rate, tokens, wait - 1)).toBeLessThan(1)
  }
})
