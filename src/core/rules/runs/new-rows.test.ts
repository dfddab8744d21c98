import { describe, expect, it } from "vitest"
import { groupMembers } from "../../model/task-path.ts"
import { group, type NodeInput, workflow } from "../../testing.ts"
import { innerRows } from "./new-rows.ts"

const fan = { foreach: { lit: [] }, reference: "list" }

describe("innerRows", () => {
  const run = { id: "r", private: false, priority: 5 }
  const nested = workflow({ g: group, "g.c": { fan }, "g.i": { ...group, fan }, "g.i.d": {} })

  it("returns the rows in the order of the definition when they fit in one chunk", () => {
    const [chunk, ...more] = innerRows(nested, 0, run, 500)
    expect(more).toEqual([])
    expect(chunk!.map(({ node, kind, lane }) => [node, kind, lane])).toEqual([
      [1, "fan", "g"],
      [2, "fan", "g"],
    ])
  })

  it("returns a task no later than its upstreams when there are several chunks", () => {
    const tasks: { [name: string]: NodeInput } = { g: group }
    for (let i = 0; i < 50; i++) tasks[`g.t${i}`] = { after: i === 0 ? [] : [`g.t${i - 1}`, ...(i > 7 ? [`g.t${i - 7}`] : [])] }
    const chain = workflow(tasks)
    const made = innerRows(chain, 0, run, 9).flat()
    expect(made.map(({ node }) => node).toSorted((a, b) => a - b)).toEqual(groupMembers(chain, 0))
    const positions = new Map(made.map(({ node }, position) => [node, position]))
    for (const { node } of made)
      for (const up of chain.nodes[node]!.upstream) expect(positions.get(up)).toBeGreaterThan(positions.get(node)!)
  })

  it("applies the limit of the run to tasks, not to groups", () => {
    const limited = workflow(
      { g: { ...group, fan, concurrency: 2 }, "g.a": { concurrency: 3 }, "g.h": group, "g.h.x": {} },
      { concurrency: 9 },
    )
    const [rows] = innerRows(limited, 0, run, 500)
    expect(rows!.map(({ limits }) => limits.map(({ key, cap }) => `${key} ${cap}`))).toEqual([["r:r 9", "t:r:1 3"], []])
  })
})
