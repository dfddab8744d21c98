import { describe, expect, it } from "vitest"
import { enclosingPath, groupMembers, isInstance, lastIndex, shortName, taskDisplayName } from "./task-path.ts"
import { group, workflow } from "../testing.ts"

const fan = { foreach: { lit: [] }, reference: "list" }
const flow = workflow({
  a: {},
  g: { ...group, fan },
  "g.b": {},
  "g.h": group,
  "g.h.c": { fan },
  "g.h.i": { ...group, fan },
  "g.h.i.d": {},
  "on_exit.0": {},
})

describe("task paths", () => {
  it.each([
    ["a", ""],
    ["g", ""],
    ["g.b", "1"],
    ["g.h", "1"],
    ["g.h.c", "1"],
    ["g.h.i", "1"],
    ["g.h.i.d", "1.20"],
  ])("have one index for each fanned group around %s", (name, enclosing) => {
    const index = flow.nodes.findIndex((node) => node.name === name)
    expect(enclosingPath(flow, index, "1.20.3")).toBe(enclosing)
    expect(enclosingPath(flow, index, enclosing)).toBe(enclosing)
  })

  it("have an own index for instances, not for their container", () => {
    const [, g, b] = flow.nodes
    expect([isInstance(g!, "fan"), isInstance(g!, "group"), isInstance(b!, "task")]).toEqual([false, true, false])
    expect([lastIndex("1.20"), lastIndex("7")]).toEqual([20, 7])
  })

  it("follow the task's name in messages", () => {
    expect([taskDisplayName("g.b", "1"), taskDisplayName("a", "")]).toEqual(["g.b[1]", "a"])
  })
})

describe("groups", () => {
  it("have the nodes directly inside them as members; the top level has no hooks", () => {
    expect(groupMembers(flow, 3)).toEqual([4, 5])
    expect(groupMembers(flow, 0)).toEqual([])
    expect(groupMembers(flow, null)).toEqual([0, 1])
  })

  it("are left out of the names of their members", () => {
    expect([1, 2, 6, 7].map((index) => shortName(flow.nodes[index]!))).toEqual(["g", "b", "d", "on_exit.0"])
  })
})
