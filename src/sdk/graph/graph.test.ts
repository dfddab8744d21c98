import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest"
import { z } from "zod"
import { parseDefinition } from "../../definition/parse.ts"
import { FatalError } from "../../executors/errors.ts"
import { task, workflow } from "../definitions.ts"
import { InvalidDefinitionError, InvalidInputError } from "../errors.ts"
import { testOrk } from "../test.ts"
import { compileGraph } from "./compile-graph.ts"
import { type AnyGraph, graph } from "./graph.ts"
import type { RefOf } from "./refs.ts"
import type { GraphTools } from "./tools.ts"
import { yaml } from "./yaml.ts"

const File = z.strictObject({ path: z.string(), rows: z.int() })
const discover = task("discover", { input: z.strictObject({ day: z.string() }), retry: { attempts: 1 } }, ({ day }) => ({
  files: [
    { path: `${day}/a.csv`, rows: 2 },
    { path: `${day}/b.csv`, rows: 3 },
  ] satisfies z.infer<typeof File>[],
  isEmpty: false,
}))
const load = task(
  "load",
  { input: z.strictObject({ path: z.string() }), retry: { attempts: 4, delay: "200ms" }, timeout: "30s" },
  ({ path }) => ({ table: path.replaceAll("/", "_") }),
)
const report = task(
  "report",
  { input: z.strictObject({ tables: z.array(z.strictObject({ table: z.string() })) }), retry: { attempts: 1 } },
  ({ tables }) => tables.map(({ table }) => table).join(", "),
)

const etl = graph("etl", { params: z.object({ day: z.iso.date() }) }, (g) => {
  const found = g.task("discover", discover, { day: g.params.day })
  const loaded = g.each("load", found.files, load, (file) => ({ path: file.path }))
  return g.task("report", report, { tables: loaded })
})

const hashOf = (definition: AnyGraph): string => compileGraph(definition).hash
const yamlHash = (text: string): string => {
  const parsed = parseDefinition(text)
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return parsed.hash
}

describe("a graph in code has the hash of the same graph in YAML", () => {
  it("with params, references and each", () => {
    expect(hashOf(etl)).toBe(
      yamlHash(`
name: etl
params: { day: { type: date, required: true } }
tasks:
  discover: { executor: node, function: discover, input: { day: "\${{ params.day }}" } }
  load:
    executor: load
    foreach: discover.files
    retry: { max_attempts: 4, base_delay: 200ms }
    timeout: 30s
    input: { path: "\${{ item.path }}" }
  report:
    executor: report
    depends_on: [load]
    input: { tables: "\${{ tasks.load.output }}" }
`),
    )
  })

  it("with groups, conditions, texts and tasks by their fields", () => {
    const params = z.object({ region: z.enum(["eu", "us"]).default("eu"), limit: z.int().optional() })
    const regions = graph("regions", { params, tags: ["sales"], timeout: "2h", maxActiveRuns: 1 }, (g) => {
      const found = g.task("discover", discover, { day: g.text`of ${g.params.region}` })
      const totals = g.eachGroup(
        "region",
        found.files,
        (inner, file) => {
          const loaded = inner.task("load", load, { path: file.path }, { retry: { attempts: 2 }, queue: "loads" })
          return inner.each("copy", [1, 2], load, (n) => ({ path: inner.cel<string>`string(${n})` }), { after: [loaded] })
        },
        { concurrency: 2 },
      )
      const clean = g.group("clean", (inner) => {
        inner.define("remove", { command: inner.text`rm ${found.files[0]!.path}`, retries: 1 })
      })
      g.task("report", report, { tables: totals[0]! }, { if: found.isEmpty, after: [clean] })
      g.define(
        "notify",
        { command: ["echo", g.status(clean)] },
        { runWhen: "all_done", if: g.cel`size(${totals}) > ${1}`, description: "Says so", timeout: "5m" },
      )
    })
    expect(hashOf(regions)).toBe(
      yamlHash(`
name: regions
tags: [sales]
timeout: 2h
max_active_runs: 1
params:
  region: { type: string, enum: [eu, us], default: eu }
  limit: { type: integer }
tasks:
  discover: { executor: discover, input: { day: "of \${{ params.region }}" } }
  region:
    foreach: discover.files
    concurrency: 2
    tasks:
      load:
        executor: load
        retry: { max_attempts: 2 }
        timeout: 30s
        queue: loads
        input: { path: "\${{ parent.item.path }}" }
      copy:
        executor: load
        depends_on: [load]
        foreach: [1, 2]
        retry: { max_attempts: 4, base_delay: 200ms }
        timeout: 30s
        input: { path: "\${{ string(item) }}" }
  clean:
    depends_on: [discover]
    tasks:
      remove: { command: "rm \${{ tasks.discover.output.files[0].path }}", retries: 1 }
  report:
    executor: report
    depends_on: [region, clean, discover]
    if: tasks.discover.output.isEmpty
    input: { tables: "\${{ tasks.region.output.map(i, i.copy)[0] }}" }
  notify:
    description: Says so
    command: [echo, "\${{ tasks.clean.status }}"]
    depends_on: [region, clean]
    run_when: all_done
    timeout: 5m
    if: size(tasks.region.output.map(i, i.copy)) > 1
`),
    )
  })
})

describe("a graph", () => {
  it("runs in the process that opened it, and resolves with what its function returns", async () => {
    await using ork = await testOrk({ run: [etl] })
    const run = await ork.enqueue(etl, { day: "2026-01-31" })
    await ork.advance("1s")
    const result = await run.result()
    expectTypeOf(result).toEqualTypeOf<string>()
    expect(result).toBe("2026-01-31_a.csv, 2026-01-31_b.csv")
    expect((await ork.tasks(run)).map(({ name, path, kind, status }) => [name, path, kind, status])).toEqual([
      ["discover", "", "task", "success"],
      ["report", "", "task", "success"],
      ["load", "0", "task", "success"],
      ["load", "1", "task", "success"],
      ["load", "", "fan", "success"],
    ])
  })

  it("fails with the name of the task that failed, after the retries of its definition", async () => {
    await using ork = await testOrk({ run: [etl] })
    const loads = ork.mock(load, () => {
      throw new Error("the disk is full")
    })
    const run = await ork.enqueue(etl, { day: "2026-01-31" })
    await ork.advance("1m")
    await expect(run.result()).rejects.toThrow(/etl .* failed: .*load/)
    expect(loads.calls).toHaveLength(8)
  })

  it("skips tasks whose condition is false, and returns the results of groups", async () => {
    const double = task("double", { input: z.strictObject({ n: z.number() }) }, ({ n }) => ({ n: 2 * n }))
    const math = graph("math", { params: z.object({ numbers: z.array(z.number()) }) }, (g) => {
      const skipped = g.task("skipped", double, { n: 1 }, { if: g.cel<boolean>`size(${g.params.numbers}) > ${10}` })
      const doubled = g.eachGroup("all", g.params.numbers, (inner, n) => {
        const once = inner.task("once", double, { n })
        return inner.task("twice", double, { n: once.n }).n
      })
      g.task("last", double, { n: 0 }, { after: [skipped], runWhen: "all_done" })
      return doubled
    })
    await using ork = await testOrk({ run: [math] })
    const run = await ork.enqueue(math, { numbers: [1, 5] })
    await ork.advance("1s")
    expect(await run.result()).toEqual([4, 20])
    const states = new Map((await ork.tasks(run)).map(({ name, status }) => [name, status]))
    expect([states.get("skipped"), states.get("last")]).toEqual(["skipped", "success"])
  })

  it("calls other graphs and durable functions", async () => {
    const child = workflow("child", { input: z.object({ n: z.number() }) }, async ({ n }, step) => {
      await step.sleep("a while", "1h")
      return { half: n / 2 }
    })
    const sub = graph("sub", { params: z.object({ n: z.number() }) }, (g) => g.task("halve", child, { n: g.params.n }).half)
    const whole = graph("whole", {}, (g) => g.each("parts", [8, 6], sub, (n) => ({ n })))
    await using ork = await testOrk({ run: [whole] })
    const run = await ork.enqueue(whole, {})
    await ork.advance("2h")
    expect(await run.result()).toEqual([4, 3])
  })

  it("keeps what looks like an expression in texts of the program literal", async () => {
    const echo = task("echo", {}, (input) => input as { text: string })
    const texts = graph("texts", { params: z.object({ cents: z.int() }) }, (g) =>
      g.task("echo", echo, { text: g.text`\${{ 1 + 1 }} costs $${g.params.cents}`, plain: "${{ x }}" }),
    )
    await using ork = await testOrk({ run: [texts] })
    const run = await ork.enqueue(texts, { cents: 5 })
    await ork.advance("1s")
    expect(await run.result()).toEqual({ text: "${{ 1 + 1 }} costs $5", plain: "${{ x }}" })
  })

  it("passes a task its own input only, also beside a large output that the task does not read", async () => {
    const produce = task("produce", {}, () => ({ text: "x".repeat(3_000_000), rows: 2 }))
    const count = task("count", { input: z.strictObject({ rows: z.number() }) }, ({ rows }) => rows + 1)
    const sizes = graph("sizes", {}, (g) => {
      const produced = g.task("produce", produce, {})
      return g.task("count", count, { rows: produced.rows })
    })
    await using ork = await testOrk({ run: [sizes] })
    const run = await ork.enqueue(sizes, {})
    await ork.advance("1s")
    expect(await run.result()).toBe(3)
  })

  it("can be scheduled, listed and found by id", async () => {
    await using ork = await testOrk({ run: [etl], now: "2026-01-01T00:00:00Z" })
    await ork.schedule("nightly", "0 2 * * *", etl, { day: "2026-01-01" })
    await ork.advance("3h")
    const runs = await Array.fromAsync(ork.list({ def: "nightly" }))
    expect(runs.map(({ status, input }) => [status, input])).toEqual([["success", { day: "2026-01-01" }]])
    expect(await (await ork.get(runs[0]!.id))?.result()).toMatchObject({ report: "2026-01-01_a.csv, 2026-01-01_b.csv" })
  })

  it("survives a crash of its process", async () => {
    await using ork = await testOrk({ run: [etl] })
    let calls = 0
    ork.mock(load, ({ path }) => {
      if (++calls < 3) throw new Error("not yet")
      return { table: path }
    })
    const run = await ork.enqueue(etl, { day: "2026-01-31" })
    await ork.advance("100ms")
    await ork.crash()
    await ork.advance("1m")
    expect(await run.result()).toBe("2026-01-31/a.csv, 2026-01-31/b.csv")
  })
})

describe("bad input", () => {
  it.each<[string, (g: GraphTools<unknown>) => unknown, RegExp]>([
    [
      "what is no definition",
      (g) => g.task("x", (() => 1) as never, {}),
      /graph\.test\.ts:\d+:\d+: x: must call what task, txTask/,
    ],
    ["nothing", (g) => g.each("x", [1], undefined as never, () => ({})), /: x: must call what task, txTask/],
  ])("rejects a task that calls %s", (_, build, message) => {
    expect(() => graph("wrong", {}, (g) => void build(g))).toThrow(InvalidDefinitionError)
    expect(() => graph("wrong", {}, (g) => void build(g))).toThrow(message)
  })

  it("rejects a reference of another graph, and params without a schema", () => {
    const outputs: RefOf<{ files: { path: string }[] }>[] = []
    graph("one", { params: z.object({ day: z.string() }) }, (g) => void outputs.push(g.task("discover", discover, { day: "" })))
    expect(() => graph("two", {}, (g) => g.task("report", report, { tables: outputs[0] as never }))).toThrow(
      /report: refers to discover of \S+, which is in another graph/,
    )
    expect(() => graph("three", { params: { day: "text" } as never }, () => {})).toThrow(
      "graph three: params is no Standard Schema",
    )
  })

  it("rejects params that the schema does not accept, and stores nothing", async () => {
    await using ork = await testOrk({ run: [etl] })
    await expect(ork.enqueue(etl, { day: "soon" })).rejects.toThrow(InvalidInputError)
    expect(await Array.fromAsync(ork.list({ def: etl }))).toEqual([])
  })

  const PLACE = /graph\.test\.ts:\d+:\d+/
  it.each<[string, () => unknown, RegExp]>([
    [
      "two tasks of one name",
      () =>
        graph("g", {}, (g) => {
          g.define("a", { command: "true" })
          g.define("a", { command: "true" })
        }),
      /: a: there is another task of this name, at .*graph\.test\.ts/,
    ],
    [
      "a task of another group",
      () =>
        graph("g", {}, (g) => {
          let inside: unknown
          g.group("one", (inner) => void (inside = inner.define("a", { command: "true" })))
          g.define("b", { command: ["echo", inside] })
        }),
      /: b: refers to a, which is inside the group one; return it from the group/,
    ],
    [
      "the item of an outer group",
      () =>
        graph("g", {}, (g) => {
          g.eachGroup("outer", [1], (inner, item) => {
            inner.eachGroup("middle", [2], (innermost) => void innermost.define("a", { command: ["echo", item] }))
          })
        }),
      /: a: refers to the item of outer, but sees only that of middle/,
    ],
    [
      "a value that is not JSON",
      () => graph("g", {}, (g) => void g.define("a", { command: "true", input: { at: new Date(0) } })),
      /: a\.input\.at: a Date is not JSON/,
    ],
    [
      "params of a type that params cannot have",
      () => graph("g", { params: z.object({ x: z.union([z.string(), z.number()]) }) }, () => undefined),
      /: params\.x: must have one of the types string, integer/,
    ],
  ])("names the place of %s", (_, declare, message) => {
    expect(declare).toThrow(InvalidDefinitionError)
    expect(declare).toThrow(message)
    expect(declare).toThrow(PLACE)
  })

  it("names the place of what only the compiler finds", () => {
    const bad = graph("bad", {}, (g) => {
      g.define("fine", { command: "true" })
      g.group("inner", (inner) => void inner.define("wrong", { comand: "true" } as object))
      g.define("priority", { command: "true" }, { priority: 11 })
    })
    const error = (() => {
      try {
        return compileGraph(bad)
      } catch (thrown) {
        return thrown as InvalidDefinitionError
      }
    })() as InvalidDefinitionError
    expect(error.problems.map(({ path, message }) => [path, message])).toEqual([
      ["tasks.inner.tasks.wrong.comand", 'unknown field "comand" (did you mean "command"?)'],
      ["tasks.priority.priority", "must be 10 or less"],
    ])
    const lines = error.problems.map(({ place }) => Number(/graph\.test\.ts:(\d+):\d+$/.exec(place)?.[1]))
    expect(lines[1]! - lines[0]!).toBe(1)
  })
})

describe("yaml", () => {
  const fileWith = (text: string): string => {
    const folder = mkdtempSync(join(tmpdir(), "ork-yaml-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, "nightly.yaml")
    writeFileSync(file, text)
    return file
  }

  it("runs a workflow file with the same tasks, and returns the outputs of its tasks", async () => {
    const file = fileWith(`
name: nightly # every night
params: { region: { type: string, required: true } }
tasks:
  load: { executor: load, input: { path: "\${{ params.region }}/x" } }
  publish: { command: "publish", depends_on: [load] }
`)
    const nightly = yaml<{ region: string }>(file)
    expect(nightly.name).toBe("nightly")
    await using ork = await testOrk({ run: [nightly, load] })
    const published = ork.mock("publish", () => "done")
    const run = await ork.enqueue(nightly, { region: "eu" })
    await ork.advance("1s")
    expect(await run.result()).toEqual({ load: { table: "eu_x" }, publish: "done" })
    expect(published.calls).toEqual([{ load: { table: "eu_x" } }])
    const bad = ork.enqueue(nightly, {} as { region: string })
    await expect(bad).rejects.toThrow("the params of nightly is not valid: region: is required (string)")
  })

  it("names the file, line and column of problems", async () => {
    const file = fileWith("name: bad\ntasks:\n  a: { comand: x }\n")
    await expect(testOrk({ run: [yaml(file)] })).rejects.toThrow(`${file}:3:8: tasks.a.comand: unknown field "comand"`)
    expect(() => yaml("missing.yaml")).toThrow(
      /missing\.yaml is not valid:\n.*graph\.test\.ts:\d+:\d+: the file cannot be read/,
    )
    expect(() => yaml(fileWith("{ name: x }"))).toThrow("must have a line with its name")
  })

  it("does not retry a mock that fails for good", async () => {
    const nightly = yaml(fileWith("name: nightly\ntasks: { a: { command: x, retries: 5 } }\n"))
    await using ork = await testOrk({ run: [nightly] })
    const mock = ork.mock("a", () => {
      throw new FatalError("no such table")
    })
    const run = await ork.enqueue(nightly, {})
    await ork.advance("1h")
    await expect(run.result()).rejects.toThrow("no such table")
    expect(mock.calls).toHaveLength(1)
  })
})
