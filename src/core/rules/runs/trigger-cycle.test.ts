import { describe, expect, it } from "vitest"
import { triggerCycle } from "./trigger-cycle.ts"

const edges = (pairs: { [workflow: string]: string[] }) =>
  Object.entries(pairs).flatMap(([workflow, upstreams]) => upstreams.map((upstream) => ({ workflow, upstream })))

describe("cycles of triggers", () => {
  it("are found through any number of workflows, in the order in which their runs start", () => {
    expect(triggerCycle(edges({ a: ["a"] }), "a")).toEqual(["a", "a"])
    expect(triggerCycle(edges({ a: ["c"], b: ["a"], c: ["b", "x"] }), "a")).toEqual(["a", "b", "c", "a"])
    expect(triggerCycle(edges({ a: ["x", "b"], x: ["y"], b: ["a"] }), "a")).toEqual(["a", "b", "a"])
  })

  it("are not found where workflows only share what they follow", () => {
    expect(triggerCycle([], "a")).toBeNull()
    expect(triggerCycle(edges({ a: ["b", "c"], b: ["d"], c: ["d"] }), "a")).toBeNull()
    expect(triggerCycle(edges({ a: ["b"], b: ["c"], c: ["b"] }), "a")).toBeNull()
  })
})
