import { describe, expect, it } from "vitest"
import { closeStatus, edgesOf } from "./effects.ts"
import { hookRows, initialRows, limitsOf } from "../runs/new-rows.ts"
import { workflow } from "../../testing.ts"

const run = { id: "r", private: false, priority: 5 }
const fan = { foreach: { lit: [] }, reference: "x" }

describe("edgesOf", () => {
  const flow = workflow({
    a: {},
    plain: { after: ["a"] },
    always: { after: ["a"], rule: "all_done" },
    each: { fan },
    below: { after: ["each"] },
  })

  it("counts down every downstream task", () => {
    expect(edgesOf(flow, run, { node: 0, path: "", kind: "task" }, "success").map((edge) => edge.node)).toEqual([1, 2])
  })

  it.each(["failed", "unmet"] as const)("moves an ungated downstream task to the gate's lane after %s", (end) => {
    expect(edgesOf(flow, run, { node: 0, path: "", kind: "task" }, end).map((edge) => edge.reroute)).toEqual(["g", null])
  })

  it.each(["success", "waived"] as const)("leaves a downstream task in its lane after %s", (end) => {
    expect(edgesOf(flow, run, { node: 0, path: "", kind: "task" }, end).map((edge) => edge.reroute)).toEqual([null, null])
  })

  it("returns edges for the container of a fan-out, not for its instances", () => {
    expect(edgesOf(flow, run, { node: 3, path: "0", kind: "task" }, "success")).toEqual([])
    expect(edgesOf(flow, run, { node: 3, path: "", kind: "fan" }, "success").map((edge) => edge.node)).toEqual([4])
  })
})

describe("closeStatus", () => {
  it.each([
    [{ cancelling: null, failed: 0 }, "success"],
    [{ cancelling: null, failed: 1 }, "failed"],
    [{ cancelling: "cancel", failed: 1 }, "cancelled"],
    [{ cancelling: "cancel", failed: 0 }, "cancelled"],
    [{ cancelling: "timeout", failed: 0 }, "failed"],
  ] as const)("of %j is %s", (state, status) => expect(closeStatus(state)).toBe(status))
})

describe("rows of a run", () => {
  const flow = workflow(
    {
      a: { priority: 9 },
      each: { after: ["a"], fan, concurrency: 4 },
      "on_failure.0": {},
      "on_exit.0": {},
      "on_success.0": {},
    },
    { concurrency: 20 },
  )

  it("are the top-level tasks at first, gated ones in the gate's lane", () => {
    expect(initialRows(flow, run)).toEqual([
      { node: 0, kind: "task", upstreamPending: 0, lane: "q:default", priority: 9, limits: [{ key: "r:r", cap: 20 }] },
      { node: 1, kind: "fan", upstreamPending: 1, lane: "g", priority: 5, limits: [] },
    ])
  })

  it("are in lanes of their own for a private run", () => {
    expect(initialRows(flow, { ...run, private: true }).map((row) => row.lane)).toEqual(["p:r:w", "p:r:g"])
  })

  it("are under the limits of the run and of the task, hooks under none", () => {
    expect(limitsOf(flow, 1, "r")).toEqual([
      { key: "r:r", cap: 20 },
      { key: "t:r:1", cap: 4 },
    ])
    expect(limitsOf(flow, 2, "r")).toEqual([])
  })

  it.each([
    ["success", ["on_exit.0", "on_success.0"]],
    ["failed", ["on_failure.0", "on_exit.0"]],
    ["cancelled", ["on_exit.0"]],
  ] as const)("get the hooks of %s at the end", (status, names) => {
    expect(hookRows(flow, run, status).map((row) => flow.nodes[row.node]!.name)).toEqual(names)
  })
})
