import { readFileSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { parseDefinition } from "../../definition/parse.ts"
import { renderGraph } from "./render-graph.ts"
import type { CompiledWorkflow } from "./workflow.ts"

const compiled = (text: string): CompiledWorkflow => {
  const parsed = parseDefinition(text)
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return parsed.workflow
}

const groups = compiled(readFileSync(new URL("../../../test/definitions/good/groups.yaml", import.meta.url), "utf8"))

describe("renderGraph", () => {
  it("draws text layer by layer", () => {
    expect(renderGraph(groups, "text")).toBe(
      [
        "groups",
        " 1  list",
        " 2  each/ ← list (× list.files)",
        "     1  fetch",
        "     2  parse  ← fetch (× 3)",
        " 3  done  ← each",
        " ↳  on_exit.0",
        "",
      ].join("\n"),
    )
  })

  it("puts a task below the lowest of its upstreams", () => {
    const text =
      "name: x\ntasks:\n  d: { command: x, depends_on: [a, c] }\n  a: { command: x }\n  c: { command: x, depends_on: [a] }\n"
    expect(renderGraph(compiled(text), "text").split("\n").slice(1, 4)).toEqual([" 1  a", " 2  c  ← a", " 3  d  ← a, c"])
  })

  it("draws groups as subgraphs in mermaid", () => {
    expect(renderGraph(groups, "mermaid")).toBe(
      [
        "flowchart TD",
        '  t0["list"]',
        '  subgraph t1["each<br/>× list.files"]',
        '    t3["fetch"]',
        '    t4["parse<br/>× 3"]',
        "  end",
        '  t2["done"]',
        "  t0 --> t1",
        "  t1 --> t2",
        "  t3 --> t4",
        "  subgraph on_exit",
        '    t5(["on_exit.0"])',
        "  end",
        "",
      ].join("\n"),
    )
  })

  it("draws groups as clusters in dot", () => {
    const dot = renderGraph(groups, "dot")
    expect(dot).toContain('subgraph cluster_1 {\n    label="each\\n× list.files";\n    t3 [label="fetch"];')
    expect(dot).toContain("t0 -> t3 [lhead=cluster_1];")
    expect(dot).toContain("t3 -> t2 [ltail=cluster_1];")
  })

  it("escapes expressions in labels", () => {
    const odd = compiled(`name: x\ntasks:\n  a: { command: x, if: "'\\"<b>\\\\n\\e[31m' == ''" }\n`)
    expect(renderGraph(odd, "text")).not.toContain("\u001b")
    expect(renderGraph(odd, "mermaid")).toContain("#34;#60;b#62;")
    expect(renderGraph(odd, "dot")).toContain('\\"<b>\\\\n')
  })
})
