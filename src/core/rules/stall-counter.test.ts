import { expect, it } from "vitest"
import { type LoopState, StallCounter } from "./stall-counter.ts"

const checks = (counter: StallCounter, times: number): LoopState[] => Array.from({ length: times }, () => counter.check())

it("a loop that does not answer is blocked, and stalled from the limit on", () => {
  const counter = new StallCounter({ checkMs: 1000, stallMs: 3000 })
  expect(checks(counter, 5)).toEqual(["running", "blocked", "blocked", "stalled", "stalled"])
})

it("a response begins the count anew, also after a stall", () => {
  const counter = new StallCounter({ checkMs: 1000, stallMs: 2000 })
  checks(counter, 4)
  counter.alive()
  expect(checks(counter, 3)).toEqual(["running", "blocked", "stalled"])
})
