import { expect, test } from "vitest"
import { Throttle } from "./throttle.ts"

test("an address with too many failures waits for a minute, and others do not wait", () => {
  let now = 0
  const throttle = new Throttle(2, () => now)
  for (let i = 0; i < 2; i++) throttle.recordFailure("here")
  expect(throttle.secondsToWait("here")).toBe(60)
  expect(throttle.secondsToWait("there")).toBe(0)
  now = 30_000
  expect(throttle.secondsToWait("here")).toBe(30)
  now = 60_000
  expect(throttle.secondsToWait("here")).toBe(0)
})
