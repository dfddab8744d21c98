import { expect, test } from "vitest"
import { dotGraph } from "./dot.ts"
import { mermaidGraph } from "./mermaid.ts"
import { textGraph } from "./text-graph.ts"
import { workflowOf } from "../../../test/support/view-sketch.ts"

const workflow = workflowOf({
  report: { after: ["process", "g"] },
  discover: {},
  process: { after: ["discover"], foreach: true },
  g: {},
  "g.a": { group: "g" },
  "g.b": { group: "g", after: ["g.a"] },
  "on_exit.0": { hook: true },
})
workflow.nodes[0]!.if = 'params.x == "y"'

test("text lists each task after its upstream, with the earliest step, members of groups below them", () => {
  expect(textGraph(workflow)).toEqual([
    "etl",
    "  1    discover",
    "  1    g                        group",
    "    1    a",
    "    2    b        ← a",
    "  2    process    ← discover    foreach []",
    '  3    report     ← process, g  if params.x == "y"',
    "  -    on_exit.0                hook",
  ])
})

test("Mermaid gets nodes, subgraphs for groups, edges, and quotes as entities", () => {
  expect(mermaidGraph(workflow)).toEqual([
    "flowchart LR",
    '  n0["report · if params.x == #34;y#34;"]',
    '  n1["discover"]',
    '  n2["process · foreach []"]',
    '  subgraph n3 ["g · group"]',
    '    n4["a"]',
    '    n5["b"]',
    "  end",
    "  n2 --> n0",
    "  n3 --> n0",
    "  n1 --> n2",
    "  n4 --> n5",
    '  n6(["on_exit.0"])',
  ])
})

test("Graphviz gets clusters for groups and escaped labels", () => {
  const lines = dotGraph(workflow)
  expect(lines[0]).toBe('digraph "etl" {')
  expect(lines).toContain('  n0 [label="report\\nif params.x == \\"y\\""]')
  expect(lines).toContain("  subgraph cluster_3 {")
  expect(lines).toContain('    n3 [label="g\\ngroup", shape=plaintext]')
  expect(lines).toContain("  n3 -> n0")
  expect(lines.at(-1)).toBe("}")
})
