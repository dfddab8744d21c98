import { expect, test } from "vitest"
import { move, NOTHING, press, SEQUENCE_MS, type Pressed } from "./keys.ts"

const SEQUENCES = [["g", "w"], ["g", "r"], ["?"], ["j"]]

const type = (keys: readonly [string, number][]): number | Pressed => {
  let pressed = NOTHING
  for (const [key, at] of keys) {
    const step = press(pressed, key, at, SEQUENCES)
    if ("matched" in step) return step.matched
    pressed = step.pressed
  }
  return pressed
}

test("a single key and a sequence are recognised", () => {
  expect(type([["?", 1]])).toBe(2)
  expect(type([["g", 1], ["r", 200]])).toBe(1) // prettier-ignore
})

test("a key without a sequence is dropped, and a key that breaks a sequence starts a new one", () => {
  expect(type([["x", 1]])).toEqual(NOTHING)
  expect(type([["g", 1], ["j", 2]])).toBe(3) // prettier-ignore
  expect(type([["g", 1], ["g", 2], ["w", 3]])).toBe(0) // prettier-ignore
})

test("a sequence times out", () => {
  expect(type([["g", 1], ["w", 2 + SEQUENCE_MS]])).toEqual(NOTHING) // prettier-ignore
})

test("moving through a list stops at its ends", () => {
  expect([move(3, -1, 1), move(3, -1, -1), move(3, 2, 1), move(3, 0, -1), move(3, 1, 1), move(0, -1, 1)]).toEqual([
    0, 2, 2, 0, 2, -1,
  ])
})
