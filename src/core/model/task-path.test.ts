import { describe, expect, it } from "vitest"
import { isInstance, lastIndex, groupMembers, pathPrefix, taskDisplayName, groupPathLengths, shortName } from "./task-path.ts"
import { innerRows } from "../rules/new-rows.ts"
import { group, type NodeInput, workflow } from "../testing.ts"

const fan = { foreach: { lit: [] }, reference: "list" }
const flow = workflow({
  a: {},
  g: { ...group, fan },
  "g.b": {},
  "g.h": group,
  "g.h.c": { fan },
  "g.h.i": { ...group, fan },
  "g.h.i.d": {},
})

describe("places", () => {
  it("have an index for each group with items around them", () => {
    expect(flow.nodes.map(({ name }, i) => [name, groupPathLengths(flow)[i]])).toEqual([
      ["a", 0],
      ["g", 0],
      ["g.b", 1],
      ["g.h", 1],
      ["g.h.c", 1],
      ["g.h.i", 1],
      ["g.h.i.d", 2],
    ])
    expect(groupMembers(flow, 3)).toEqual([4, 5])
    expect(groupMembers(flow, 0)).toEqual([])
  })

  it.each([
    ["", 0, ""],
    ["3", 0, ""],
    ["3", 1, "3"],
    ["1.20.3", 2, "1.20"],
    ["1.20.3", 5, "1.20.3"],
  ])("the path %j has at depth %i the beginning %j", (path, depth, beginning) => {
    expect(pathPrefix(path, depth)).toBe(beginning)
  })

  it("tell instances from what stands for them, and short names from whole ones", () => {
    const [, g, b] = flow.nodes
    expect([isInstance(g!, "fan"), isInstance(g!, "group"), isInstance(b!, "task")]).toEqual([false, true, false])
    expect([shortName(g!), shortName(b!), lastIndex("1.20"), lastIndex("7")]).toEqual(["g", "b", 20, 7])
    expect([taskDisplayName("g.b", "1"), taskDisplayName("a", "")]).toEqual(["g.b[1]", "a"])
  })
})

describe("the rows inside a group", () => {
  const run = { id: "r", private: false, priority: 5 }

  it("come in the order of the definition when they fit in one chunk", () => {
    const [chunk, ...more] = innerRows(flow, 3, run, 500)
    expect(more).toEqual([])
    expect(chunk!.map(({ node, kind, lane }) => [node, kind, lane])).toEqual([
      [4, "fan", "g"],
      [5, "fan", "g"],
    ])
  })

  it("come in several chunks no later than what they wait for", () => {
    const tasks: { [name: string]: NodeInput } = { g: group }
    for (let i = 0; i < 50; i++) tasks[`g.t${i}`] = { after: i === 0 ? [] : [`g.t${i - 1}`, ...(i > 7 ? [`g.t${i - 7}`] : [])] }
    const chain = workflow(tasks)
    const made = innerRows(chain, 0, run, 9).flat()
    expect(made.map(({ node }) => node).toSorted((a, b) => a - b)).toEqual(groupMembers(chain, 0))
    const places = new Map(made.map(({ node }, place) => [node, place]))
    for (const { node } of made)
      for (const up of chain.nodes[node]!.upstream) expect(places.get(up)).toBeGreaterThan(places.get(node)!)
  })

  it("are under the limits of the run, but groups are not", () => {
    const limited = workflow(
      { g: { ...group, fan, concurrency: 2 }, "g.a": { concurrency: 3 }, "g.h": group, "g.h.x": {} },
      { concurrency: 9 },
    )
    const [rows] = innerRows(limited, 0, run, 500)
    expect(rows!.map(({ limits }) => limits.map(({ key, cap }) => `${key} ${cap}`))).toEqual([["r:r 9", "t:r:1 3"], []])
  })
})
