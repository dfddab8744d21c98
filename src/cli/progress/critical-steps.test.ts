import { expect, test } from "vitest"
import { criticalSteps } from "./summary.ts"
import { applyEvent, newTerminalRun } from "./terminal-state.ts"
import { event, RUN, type Sketch, workflowOf } from "../../../test/support/view-sketch.ts"

const path = (sketch: { [name: string]: Sketch }, ...events: ReturnType<typeof event>[]): string[] => {
  const view = newTerminalRun(RUN, workflowOf(sketch))
  for (const each of events) applyEvent(view, each)
  return criticalSteps(view).map((step) => `${step.name} ${(step.finishedAt - step.startedAt) / 1000}s`)
}

test("the path leads back over the upstream tasks that ended last", () => {
  const diamond = { a: {}, fast: { after: ["a"] }, slow: { after: ["a"] }, z: { after: ["fast", "slow"] } }
  expect(
    path(
      diamond,
      event(0, "a running"),
      event(1, "a success"),
      event(1, "fast running"),
      event(1, "slow running"),
      event(2, "fast success"),
      event(9, "slow success"),
      event(9, "z running"),
      event(10, "z success"),
    ),
  ).toEqual(["a 1s", "slow 8s", "z 1s"])
})

test("a skipped task is left out, but the path continues before it", () => {
  const chain = { a: {}, b: { after: ["a"] }, c: { after: ["b"] } }
  expect(
    path(
      chain,
      event(0, "a running"),
      event(2, "a success"),
      event(2, "b skipped"),
      event(2, "c running"),
      event(3, "c success"),
    ),
  ).toEqual(["a 2s", "c 1s"])
})

test("hooks are not part of the path, and a run without ended tasks has no path", () => {
  expect(path({ a: {}, hook: { hook: true } }, event(5, "hook running"), event(9, "hook success"))).toEqual([])
})

test("a fan-out lasts from its first start to its last end", () => {
  expect(
    path(
      { a: { foreach: true } },
      event(1, "a/0 running"),
      event(2, "a/1 running"),
      event(3, "a/0 success"),
      event(6, "a/1 success"),
    ),
  ).toEqual(["a 5s"])
})
