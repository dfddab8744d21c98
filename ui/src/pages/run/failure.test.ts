import { expect, test } from "vitest"
import { applyEvents } from "../../run/events.ts"
import { stateOf, taskEvent } from "../../run/testing.ts"
import { failureOf, lastLines } from "./failure.ts"

test("the cause of a failed run is the instance that failed first, hooks aside", () => {
  const state = stateOf({ a: {}, load: { fan: true }, page: { hook: true } })
  expect(failureOf(state)).toBeNull()
  applyEvents(
    state,
    [
      taskEvent("a", "success", 1),
      taskEvent("page", "failed", 1),
      taskEvent("load", "failed", 9, { path: "0" }),
      taskEvent("load", "success", 2, { path: "1" }),
      taskEvent("load", "failed", 4, { path: "2" }),
    ],
    false,
  )
  expect(failureOf(state)).toMatchObject({ first: { path: "2" }, count: 2 })
})

test("the last lines of a log have neither terminal codes nor empty lines at their ends", () => {
  expect(lastLines("one\n\u001b[31mtwo\u001b[0m\nthree\n\n", 2)).toEqual(["two", "three"])
  expect(lastLines("\none\n", 5)).toEqual(["one"])
  expect(lastLines("", 5)).toEqual([])
})
