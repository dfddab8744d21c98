import { readdirSync, readFileSync } from "node:fs"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { problemText } from "../core/model/problems.ts"
import { parseDefinition, type ParsedDefinition, parseValue } from "./parse.ts"

const folder = new URL("../../test/definitions/", import.meta.url)
const files = (kind: "good" | "bad"): string[] =>
  readdirSync(new URL(kind, folder)).filter((file) => /\.(yaml|json)$/.test(file) && !file.endsWith(".compiled.json"))
const read = (kind: string, file: string): string => readFileSync(new URL(`${kind}/${file}`, folder), "utf8")
const golden = (kind: string, file: string): string => new URL(`${kind}/${file}`, folder).pathname

const problems = (parsed: ParsedDefinition): string[] =>
  parsed.ok ? [] : parsed.problems.map((problem) => problemText(problem))

const compiled = (text: string) => {
  const parsed = parseDefinition(text)
  if (!parsed.ok) throw new Error(problems(parsed).join("\n"))
  return parsed
}

describe("a good definition", () => {
  it.each(files("good"))("compiles: %s", async (file) => {
    const parsed = parseDefinition(read("good", file), { file })
    expect(problems(parsed)).toEqual([])
    if (!parsed.ok) return
    await expect(`${JSON.stringify(parsed.workflow, null, 2)}\n`).toMatchFileSnapshot(golden("good", `${file}.compiled.json`))
  })

  it("has the same hash in every notation", () => {
    const a = compiled(
      "name: x\ntasks:\n  # first\n  a: { command: one, retries: 2 }\n  b: { command: two, depends_on: [a] }\n",
    )
    const b = compiled(
      `{"tasks": {"b": {"depends_on": ["a"], "command": "two"}, "a": {"retries": 2, "command": "one"}}, "name": "x"}`,
    )
    const c = compiled("name: x\ntasks:\n  a: { command: one, retries: 3 }\n  b: { command: two, depends_on: [a] }\n")
    expect(a.hash).toMatch(/^[0-9a-f]{64}$/)
    expect(b.hash).toBe(a.hash)
    expect(c.hash).not.toBe(a.hash)
    expect(parseValue(JSON.parse(b.source))).toMatchObject({ ok: true, hash: a.hash })
  })

  it.each([
    ["function alone", { executor: "node", function: "resize" }],
    ["its name as executor", { executor: "resize" }],
  ])("may call a registered function: %s", (_, task) => {
    const parsed = parseValue({ name: "x", tasks: { a: task } })
    expect(parsed.ok && parsed.workflow.nodes[0]).toMatchObject({ executor: "function", function: "resize" })
    expect(parsed.ok && parsed.workflow.nodes[0]!.file).toBeUndefined()
  })

  const upstreamOf = (tasks: object): Record<string, string[]> => {
    const parsed = parseValue({ name: "x", tasks })
    expect(problems(parsed)).toEqual([])
    const nodes = parsed.ok ? parsed.workflow.nodes : []
    return Object.fromEntries(nodes.map(({ name, upstream }) => [name, upstream.map((i) => nodes[i]!.name)]))
  }

  it("depends on the tasks that foreach and parallel refer to", () => {
    const list = { command: "list" }
    expect(upstreamOf({ each: { foreach: "list.files", command: "x" }, list })).toEqual({ each: ["list"], list: [] })
    expect(upstreamOf({ list, n: { parallel: "list.count", command: "x" } })).toMatchObject({ n: ["list"] })
    expect(
      upstreamOf({
        a: list,
        b: list,
        each: { depends_on: ["b"], foreach: "${{ tasks.a.output + tasks.b.output }}", command: "x" },
      }),
    ).toMatchObject({ each: ["a", "b"] })
    expect(
      upstreamOf({
        list,
        group: { tasks: { inner: list, each: { foreach: "list.files", parallel: "inner.n", command: "x" } } },
      }),
    ).toMatchObject({ group: ["list"], "group.each": ["group.inner"] })
  })

  it("may be notified of by one object", () => {
    const notify = { on: ["failure"], webhook: "https://x" }
    const tasks = { a: { command: "x" } }
    expect(parseValue({ name: "x", notify, tasks })).toMatchObject({ ok: true, workflow: { notify: [notify] } })
    expect(problems(parseDefinition("name: x\nnotify: { on: [failure] }\ntasks: { a: { command: x } }"))).toEqual([
      "2:1: notify: has no target; add webhook, slack or email",
    ])
  })

  it("may have params with choices of several types", () => {
    const params = {
      size: { enum: ["auto", 3] },
      level: { enum: [1, 2] },
      ratio: { enum: [1, 0.5] },
      any: { type: "enum", enum: [null, "x"] },
    }
    const parsed = parseValue({ name: "x", params, tasks: { a: { command: "x" } } })
    expect(problems(parsed)).toEqual([])
    expect(parsed.ok && parsed.workflow.params.map(({ type }) => type)).toEqual(["enum", "integer", "number", "enum"])
    expect(problems(parseValue({ name: "x", params: { a: { type: "enum" } }, tasks: { a: { command: "x" } } }))).toEqual([
      "params.a: has the type enum, but no choices; add enum: [a, b]",
    ])
  })

  it("with 10,000 tasks that read the first one compiles", () => {
    const tasks = Array.from({ length: 10_000 }, (_, i): [string, unknown] => [
      `t${i}`,
      i === 0 ? { command: "x" } : { command: "x ${{ tasks.t0.output }}", depends_on: [`t${i - 1}`] },
    ])
    const parsed = parseValue({ name: "large", tasks: Object.fromEntries(tasks) })
    expect(problems(parsed)).toEqual([])
    expect(parsed.ok && parsed.workflow.nodes[9999]!.reads).toEqual([0, 9998])
  })
})

describe("a bad definition", () => {
  it.each(files("bad"))("is rejected with all of its problems: %s", async (file) => {
    const parsed = parseDefinition(read("bad", file), { file })
    expect(parsed.ok).toBe(false)
    const text = problems(parsed)
      .map((line) => `${line}\n`)
      .join("")
    await expect(text).toMatchFileSnapshot(golden("bad", `${file}.txt`))
  })

  const nested = (open: string, close: string): string => `name: x\ntasks: ${open.repeat(10_000)}${close.repeat(10_000)}\n`

  it.each([
    ["10,000 levels of flow lists", nested("[", "]"), /^2:\d+: is nested more than 64 levels/],
    ["10,000 levels of flow maps", nested("{a: ", "}"), /^2:\d+: is nested more than 64 levels/],
    ["10,000 levels of block lists", `name: x\ntasks:\n  ${"- ".repeat(10_000)}a\n`, /^3:\d+: is nested more than 64 levels/],
    [
      "1,000 levels of block maps",
      Array.from({ length: 1000 }, (_, i) => `${" ".repeat(i)}a:\n`).join(""),
      /nested more than 64/,
    ],
    [
      "20,000 aliases",
      `name: x\na: &a [1]\nb: [${"*a, ".repeat(20_000)}]\n${"#".repeat(200_000)}`,
      /^3:\d+: the definition has more than 100 aliases/,
    ],
    ["more than 1 MiB", `name: x\n${"#".repeat(1024 * 1024)}`, /at most 1048576 \(1 MiB\)/],
  ])("with %s is rejected before it is parsed", (_, text, reason) => {
    const found = problems(parseDefinition(text))
    expect(found).toHaveLength(1)
    expect(found[0]).toMatch(reason)
  })

  it("whose aliases multiply is rejected", () => {
    const lines = Array.from({ length: 9 }, (_, i) => `x${i + 1}: &x${i + 1} [${Array(9).fill(`*x${i}`).join(", ")}]`)
    const text = `name: x\nx0: &x0 [1, 1, 1]\n${lines.join("\n")}\ntasks: { a: { command: x, input: { v: *x9 } } }\n`
    expect(problems(parseDefinition(text)).join("\n")).toContain("aliases expand the document to more than 100,000 nodes")
  })

  it("whose alias is inside its own anchor is rejected", () => {
    expect(problems(parseDefinition("name: x\ntasks: &a\n  b: *a\n")).join("\n")).toContain("*a is inside its own anchor")
  })

  it("as a value that JSON cannot represent is rejected", () => {
    let deep: unknown = 1
    for (let i = 0; i < 100_000; i++) deep = [deep]
    expect(problems(parseValue({ name: "x", tasks: deep }))[0]).toContain("nested more than 64 levels")
    expect(problems(parseValue({ name: "x", tasks: { a: { command: () => 1 } } }))).toEqual([
      "tasks.a.command: a function cannot be written as JSON",
    ])
    expect(problems(parseValue(JSON.parse('{"name": "x", "tasks": {"__proto__": {"command": "x"}}}')))[0]).toContain(
      "__proto__",
    )
    expect(problems(parseValue(null))).toHaveLength(1)
    expect(problems(parseValue("name: x"))).toHaveLength(1)
  })

  it("never throws for any value", () => {
    const word = fc.constantFrom(
      "name",
      "tasks",
      "a",
      "b",
      "command",
      "depends_on",
      "foreach",
      "params",
      "schedule",
      "on_exit",
      "retry",
      "env",
      "id",
      "if",
    )
    const leaf = fc.oneof(
      fc.constantFrom("a", "x ${{ tasks.a.output }}", "${{ item", "10m", "@daily", "", "__proto__", "${{ params.a + }}"),
      fc.integer(),
      fc.boolean(),
      fc.constant(null),
    )
    const { value } = fc.letrec((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie("value"), { maxLength: 3 }),
        fc.dictionary(word, tie("value"), { maxKeys: 4 }),
      ),
    }))
    const tasks = fc.dictionary(fc.constantFrom("a", "b", "c"), fc.dictionary(word, value, { maxKeys: 4 }), { maxKeys: 3 })
    fc.assert(
      fc.property(fc.oneof(value, fc.record({ name: fc.constant("x"), tasks })), (definition) => {
        const parsed = parseValue(definition)
        expect(parsed.ok || parsed.problems.length > 0).toBe(true)
        expect(parseDefinition(JSON.stringify(definition), { format: "json" }).ok).toBe(parsed.ok)
      }),
      { numRuns: 300 },
    )
  })

  it("never throws for any text", () => {
    const piece = fc.constantFrom(
      "name: x\n",
      "tasks:\n",
      "  a:\n",
      "    command: x\n",
      "- ",
      "? ",
      ": ",
      "{",
      "}",
      "[",
      "]",
      "&a ",
      "*a",
      "<<: ",
      '"',
      "'",
      "|\n",
      "#",
      "!!x ",
      "---\n",
      "\t",
      "\n",
      "a",
      "%",
      "\u0000",
      "1e999",
      ".nan",
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 25 }), (pieces) => {
        const parsed = parseDefinition(pieces.join(""))
        expect(parsed.ok || parsed.problems.length > 0).toBe(true)
      }),
      { numRuns: 500 },
    )
  })
})
