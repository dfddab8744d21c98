import { describe, expect, it } from "vitest"
import type { LimitState } from "./admit.ts"
import { firstFull, freeSlots, readyUnderLimits } from "./slots.ts"

const STATES: Record<number, LimitState> = {
  1: { cap: 5, used: 0 },
  2: { cap: 3, used: 1 },
  3: { cap: 1, used: 4 },
  4: { cap: 2, used: 0 },
}
const stateOf = (limit: number): LimitState => STATES[limit]!

it("has no free slot, rather than a negative number, after its cap was lowered", () => {
  expect(freeSlots({ cap: 2, used: 5 })).toBe(0)
})

describe("new rows", () => {
  it.each([
    [[], 3, { ready: 3, parkedUnder: null }],
    [[1], 5, { ready: 5, parkedUnder: null }],
    [[1], 7, { ready: 5, parkedUnder: 1 }],
    [[1, 2], 3, { ready: 2, parkedUnder: 2 }],
    [[2, 4], 9, { ready: 2, parkedUnder: 2 }],
    [[1, 3], 2, { ready: 0, parkedUnder: 3 }],
  ] as const)("under the limits %j, %i wanted", (limits, wanted, expected) => {
    expect(readyUnderLimits(limits, stateOf, wanted)).toEqual(expected)
  })
})

it.each([
  [[], undefined],
  [[1, 2], undefined],
  [[1, 3], 3],
] as const)("the first full limit of %j", (limits, expected) => {
  expect(firstFull(limits, stateOf)).toBe(expected)
})
