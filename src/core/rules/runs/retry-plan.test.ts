import { describe, expect, it } from "vitest"
import { type RowState, planRetry, resetsWhole } from "./retry-plan.ts"
import type { TaskStatus } from "../../model/status.ts"
import { group, workflow } from "../../testing.ts"

const run = { id: "r", private: false }
const fan = { foreach: { lit: [1, 2] }, reference: "list" }
const flow = workflow({
  extract: {},
  load: { after: ["extract"] },
  each: { after: ["extract"], fan },
  report: { after: ["load", "each"] },
})

const states = (...statuses: TaskStatus[]): RowState[] =>
  statuses.map((status, node) => {
    const isFan = flow.nodes[node]!.fan !== undefined
    const skip = status === "skipped" ? "unmet" : null
    return {
      node,
      path: "",
      kind: isFan ? "fan" : "task",
      status,
      skipReason: skip,
      childrenCreated: isFan ? 2 : 0,
      total: isFan ? 2 : null,
    }
  })

const plan = (ends: RowState[], request = {}) => {
  const made = planRetry(flow, run, ends, request)
  if ("problem" in made) return made
  return {
    again: made.again,
    kept: made.kept,
    nodes: made.reset.rows.map(({ node, extent, upstreamPending, lane }) => [
      flow.nodes[node]!.name,
      extent,
      upstreamPending,
      lane,
    ]),
  }
}

describe("planRetry", () => {
  it("resets failed, skipped and cancelled tasks and keeps successes", () => {
    expect(plan(states("success", "failed", "success", "skipped"))).toEqual({
      again: ["load", "report"],
      kept: ["extract", "each"],
      nodes: [
        ["load", "all", 0, "q:default"],
        ["report", "all", 1, "q:default"],
      ],
    })
  })

  it("resets only the failed instances of a fan-out", () => {
    expect(plan(states("success", "success", "failed", "skipped"))).toMatchObject({
      nodes: [
        ["each", "failed", 0, "g"],
        ["report", "all", 1, "q:default"],
      ],
    })
  })

  it("expands a fan-out again when its upstream is reset", () => {
    expect(plan(states("failed", "skipped", "cancelled", "skipped"))).toMatchObject({
      nodes: [
        ["extract", "all", 0, "q:default"],
        ["load", "all", 1, "q:default"],
        ["each", "all", 1, "g"],
        ["report", "all", 2, "q:default"],
      ],
    })
  })

  it("resets a task and everything below it, successes too", () => {
    expect(plan(states("success", "success", "success", "success"), { from: "each" })).toMatchObject({
      again: ["each", "report"],
      nodes: [
        ["each", "all", 0, "g"],
        ["report", "all", 1, "q:default"],
      ],
    })
  })

  it("resets one instance and everything below its fan-out", () => {
    const request = { instance: { task: "each", path: "1" } }
    expect(plan(states("success", "success", "success", "success"), request)).toMatchObject({
      nodes: [
        ["each", { path: "1" }, 0, "g"],
        ["report", "all", 1, "q:default"],
      ],
    })
  })

  it("counts failed upstreams that are kept, so that the gate evaluates the task", () => {
    const made = planRetry(flow, run, states("success", "failed", "success", "skipped"), { from: "report" })
    expect(made).toMatchObject({ reset: { rows: [{ upstreamPending: 0, upstream: { failed: 1 }, lane: "g" }] } })
  })

  it.each([
    [{ from: "nobody" }, "the run has no task nobody"],
    [{ instance: { task: "load", path: "0" } }, "task load has no instances; retry from it instead"],
    [{}, "every task succeeded; name a task to retry from"],
  ])("rejects %j with a reason", (request, problem) => {
    expect(plan(states("success", "success", "success", "success"), request)).toEqual({ problem })
  })
})

describe("planRetry of groups", () => {
  const nested = workflow({
    g: { ...group, fan },
    after: { after: ["g"] },
    "g.a": {},
    "g.b": { after: ["g.a"] },
  })
  const row = (node: number, path: string, kind: RowState["kind"], status: TaskStatus, expanded = 0): RowState => ({
    node,
    path,
    kind,
    status,
    skipReason: status === "skipped" ? "unmet" : null,
    childrenCreated: expanded,
    total: expanded,
  })
  /** Item 1 failed in its first task; item 2 was never opened. */
  const ended = [
    row(0, "", "fan", "failed", 3),
    row(1, "", "task", "skipped"),
    row(0, "0", "group", "success", 2),
    row(0, "1", "group", "failed", 2),
    row(0, "2", "group", "cancelled"),
    row(2, "0", "task", "success"),
    row(3, "0", "task", "success"),
    row(2, "1", "task", "failed"),
    row(3, "1", "task", "skipped"),
  ]
  const planned = (request: Parameters<typeof planRetry>[3]) => {
    const made = planRetry(nested, run, ended, request)
    if ("problem" in made) return made.problem
    return made.reset.rows.map(({ node, path, extent, upstreamPending }) => [
      nested.nodes[node]!.name,
      path,
      extent,
      upstreamPending,
    ])
  }

  it("resets failed items and items that never began, and keeps the others", () => {
    expect(planned({})).toEqual([
      ["g", "", "await", 0],
      ["g", "1", "await", 0],
      ["g", "2", "all", 0],
      ["after", "", "all", 1],
      ["g.a", "1", "all", 0],
      ["g.b", "1", "all", 1],
    ])
  })

  it("from a task inside resets it in every item, and everything below the group", () => {
    expect(planned({ from: "g.b" })).toEqual([
      ["g", "", "await", 0],
      ["g", "0", "await", 0],
      ["g", "1", "await", 0],
      ["after", "", "all", 1],
      ["g.b", "0", "all", 0],
      ["g.b", "1", "all", 0],
    ])
  })

  it("of one item resets the whole item", () => {
    expect(planned({ instance: { task: "g", path: "0" } })).toEqual([
      ["g", "", "await", 0],
      ["g", "0", "all", 0],
      ["after", "", "all", 1],
    ])
    expect(planned({ instance: { task: "g", path: "9" } })).toBe("task g has no instance 9")
    expect(planned({ instance: { task: "g.a", path: "2" } })).toBe("the run has no task g.a at 2")
  })
})

describe("a retried container", () => {
  const complete = { childrenCreated: 3, childrenTotal: 3 }
  const interrupted = { childrenCreated: 2, childrenTotal: 3 }

  it.each([
    [{ kind: "task", childrenCreated: 0, childrenTotal: null }, "await", true],
    [{ kind: "fan", ...complete }, "all", true],
    [{ kind: "fan", ...complete }, "failed", false],
    [{ kind: "fan", ...interrupted }, "failed", false],
    [{ kind: "fan", childrenCreated: 0, childrenTotal: 3 }, "failed", true],
    [{ kind: "group", ...complete }, "await", false],
    [{ kind: "group", ...interrupted }, "await", true],
  ] as const)("%j with the extent %s starts over as a whole: %s", (row, extent, expected) => {
    expect(resetsWhole(row, extent)).toBe(expected)
  })
})
