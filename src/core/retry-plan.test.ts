import { describe, expect, it } from "vitest"
import { type NodeState, planRetry } from "./retry-plan.ts"
import type { TaskStatus } from "./status.ts"
import { workflow } from "./testing.ts"

const run = { id: "r", private: false }
const fan = { foreach: { lit: [1, 2] }, reference: "list" }
const flow = workflow({
  extract: {},
  load: { after: ["extract"] },
  each: { after: ["extract"], fan },
  report: { after: ["load", "each"] },
})

const states = (...statuses: TaskStatus[]): NodeState[] =>
  statuses.map((status, node) => {
    const isFan = flow.nodes[node]!.fan !== undefined
    const skip = status === "skipped" ? "unmet" : null
    return { node, path: "", kind: isFan ? "fan" : "task", status, skip, expanded: isFan ? 2 : 0 }
  })

const plan = (ends: NodeState[], request = {}) => {
  const made = planRetry(flow, run, ends, request)
  if ("problem" in made) return made
  return {
    again: made.again,
    kept: made.kept,
    nodes: made.reset.nodes.map(({ node, scope, upstreamLeft, lane }) => [flow.nodes[node]!.name, scope, upstreamLeft, lane]),
  }
}

describe("planRetry", () => {
  it("takes failed, skipped and cancelled tasks again and keeps successes", () => {
    expect(plan(states("success", "failed", "success", "skipped"))).toEqual({
      again: ["load", "report"],
      kept: ["extract", "each"],
      nodes: [
        ["load", "all", 0, "q:default"],
        ["report", "all", 1, "q:default"],
      ],
    })
  })

  it("takes only the failed instances of a fan-out again", () => {
    expect(plan(states("success", "success", "failed", "skipped"))).toMatchObject({
      nodes: [
        ["each", "failed", 0, "g"],
        ["report", "all", 1, "q:default"],
      ],
    })
  })

  it("expands a fan-out anew when its upstream goes again", () => {
    expect(plan(states("failed", "skipped", "cancelled", "skipped"))).toMatchObject({
      nodes: [
        ["extract", "all", 0, "q:default"],
        ["load", "all", 1, "q:default"],
        ["each", "all", 1, "g"],
        ["report", "all", 2, "q:default"],
      ],
    })
  })

  it("takes a task and all below it again, successes too", () => {
    expect(plan(states("success", "success", "success", "success"), { from: "each" })).toMatchObject({
      again: ["each", "report"],
      nodes: [
        ["each", "all", 0, "g"],
        ["report", "all", 1, "q:default"],
      ],
    })
  })

  it("takes one instance and all below it again", () => {
    const request = { instance: { task: "each", path: "1" } }
    expect(plan(states("success", "success", "success", "success"), request)).toMatchObject({
      nodes: [
        ["each", { path: "1" }, 0, "g"],
        ["report", "all", 1, "q:default"],
      ],
    })
  })

  it("counts what failed above and is kept, so that the gate judges the task anew", () => {
    const made = planRetry(flow, run, states("success", "failed", "success", "skipped"), { from: "report" })
    expect(made).toMatchObject({ reset: { nodes: [{ upstreamLeft: 0, upstream: { failed: 1 }, lane: "g" }] } })
  })

  it.each([
    [{ from: "nobody" }, "the run has no task nobody"],
    [{ instance: { task: "load", path: "0" } }, "task load has no instances; retry from it instead"],
    [{}, "every task succeeded; name a task to retry from"],
  ])("refuses %j with a reason", (request, problem) => {
    expect(plan(states("success", "success", "success", "success"), request)).toEqual({ problem })
  })
})
