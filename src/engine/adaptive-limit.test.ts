import { expect, test } from "vitest"
import { AdaptiveLimit, machineUnderPressure } from "./adaptive-limit.ts"
import { ManualClock } from "../executors/conformance/manual-clock.ts"

const setup = () => {
  const clock = new ManualClock()
  const state = { pressure: false, grown: 0, full: true }
  const limit = new AdaptiveLimit({ min: 16, max: 128, clock, underPressure: () => state.pressure })
  /** Fills the limit for a time, as an engine does whose tasks never end. */
  const fill = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 25) {
      limit.full(
        () => state.full,
        () => (state.grown += 1),
      )
      await clock.pass(25)
    }
  }
  return { clock, state, limit, fill }
}

test("a limit that is full grows to its maximum while nothing is under pressure", async () => {
  const { limit, state, fill } = setup()
  expect(limit.current()).toBe(16)
  await fill(25)
  expect([limit.current(), state.grown]).toEqual([32, 1])
  await fill(500)
  expect([limit.current(), state.grown]).toEqual([128, 3])
})

test("under pressure a limit stops growing, and falls back to its minimum, but never below", async () => {
  const { limit, state, fill } = setup()
  await fill(50)
  state.pressure = true
  await fill(50)
  expect(limit.current()).toBe(64)
  await fill(1000)
  expect(limit.current()).toBe(16)
  state.pressure = false
  await fill(100)
  expect(limit.current()).toBeGreaterThan(16)
})

test("a full limit grows when the pressure ends, without another task", async () => {
  const { clock, limit, state, fill } = setup()
  state.pressure = true
  await fill(25)
  await clock.pass(10_000)
  expect([limit.current(), state.grown]).toEqual([16, 0])
  state.pressure = false
  await clock.pass(100)
  expect([limit.current(), state.grown]).toEqual([32, 1])
  state.full = false
  await clock.pass(1000)
  expect(clock.waiting).toBe(0)
})

test("a limit that was not full for seconds begins at its minimum again", async () => {
  const { clock, limit, fill } = setup()
  await fill(100)
  expect(limit.current()).toBe(128)
  await clock.pass(1900)
  expect(limit.current()).toBe(128)
  await clock.pass(200)
  expect(limit.current()).toBe(16)
})

test("the pressure of this machine can be read", () => {
  expect(typeof machineUnderPressure()).toBe("boolean")
})
