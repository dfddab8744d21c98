// Outputs that are too large to be parsed where the server handles requests: everything that reads them works, and nothing parses them
// outside of the evaluator's thread.

import { describe, expect, it, onTestFinished, vi } from "vitest"
import { type Script, setup } from "./setup.ts"
import type { RunId } from "../../src/core/model/ids.ts"
import type { Json } from "../../src/core/values/json.ts"
import { createEvaluator } from "../../src/engine/gate/evaluator.ts"
import { shortInputText } from "../../src/executors/input.ts"

const rowsOf = (length: number): Json[] => Array.from({ length }, (_, id) => ({ id, name: `the name of row ${id}` }))

/** About 5 MB. */
const LARGE = { rows: rowsOf(100_000), total: 100_000 }
/** More than 16 MiB. */
const HUGE = { text: "x".repeat(17 * 1024 * 1024) }
/** Length of the longest text that may be parsed here: upstream outputs of a task together, and parts of lists. */
const LIMIT = 1.1 * 1024 * 1024

const start = async (output: Json) => {
  const evaluator = createEvaluator({ timeoutMs: 5000 })
  const texts = new Map<string, string>()
  const use: Script = async (assignment) => {
    texts.set(assignment.task, (await shortInputText(assignment, Number.POSITIVE_INFINITY))!)
    return null
  }
  const options = { evaluator, maxOutputBytes: 64 * 1024 * 1024 }
  const fixture = await setup({ load: () => output, use, other: use }, options)
  onTestFinished(() => evaluator.stop())
  const parse = JSON.parse
  let longest = 0
  const spy = vi.spyOn(JSON, "parse").mockImplementation((text: string, reviver) => {
    longest = Math.max(longest, text.length)
    return parse(text, reviver) as unknown
  })
  onTestFinished(() => spy.mockRestore())
  const run = async (definition: string): Promise<RunId> => {
    const runId = await fixture.trigger(definition)
    await fixture.ended(runId)
    spy.mockRestore()
    expect(longest).toBeLessThan(LIMIT)
    return runId
  }
  const launched = (task: string) => fixture.launched.filter((assignment) => assignment.task === task)
  const inputOf = (task: string): unknown => JSON.parse(texts.get(task)!)
  return { ...fixture, run, launched, inputOf }
}

describe("a large output", () => {
  it("is read by expressions", async () => {
    const { run, launched, task } = await start(LARGE)
    const runId = await run(`
name: read
tasks:
  load: { command: x }
  use:
    depends_on: [load]
    if: tasks.load.output.total > 5
    command: [x, "\${{ tasks.load.output.rows[7].name }}", "\${{ size(tasks.load.output.rows) }}"]
`)
    expect((await task(runId, "use")).status).toBe("success")
    expect(launched("use")[0]!.command).toEqual({ argv: ["x", "the name of row 7", "100000"] })
  })

  it("is the list of a fan-out", async () => {
    const { run, launched } = await start(rowsOf(300).map((row) => ({ ...(row as object), text: "x".repeat(20_000) })))
    await run("name: fan\ntasks: { load: { command: x }, each: { foreach: '${{ tasks.load.output }}', command: x } }")
    expect(launched("each")).toHaveLength(300)
    expect(launched("each").map(({ input }) => (input as { item: { id: number } }).item.id)).toEqual(
      Array.from({ length: 300 }, (_, i) => i),
    )
  })

  it("is part of the input of a downstream task, unless the task's own input replaces it", async () => {
    const { run, inputOf } = await start(LARGE)
    await run(`
name: pass
tasks:
  load: { command: x }
  use: { depends_on: [load], command: x, input: { own: 1 } }
  other: { depends_on: [load], command: x, input: { load: 2 } }
`)
    expect(inputOf("use")).toEqual({ own: 1, load: LARGE })
    expect(inputOf("other")).toEqual({ load: 2 })
  })

  it("is checked against its schema", async () => {
    const { run, task } = await start(LARGE)
    const schema = (maximum: number): string =>
      `{ type: object, properties: { total: { type: integer, maximum: ${maximum} } } }`
    const fits = await run(`name: fits\ntasks: { load: { command: x, output: ${schema(100_000)} } }`)
    expect((await task(fits, "load")).status).toBe("success")
    const fails = await run(`name: fails\ntasks: { load: { command: x, output: ${schema(5)} } }`)
    expect((await task(fails, "load")).error).toMatch(/the output does not fit its schema: .*total must be <= 5/)
  })

  it("is part of the output of a child run", async () => {
    const { run, deploy, inputOf, task } = await start(LARGE)
    await deploy("name: child\ntasks: { load: { command: x }, none: { command: x } }")
    const runId = await run(
      "name: parent\ntasks: { sub: { executor: workflow, workflow: child }, use: { depends_on: [sub], command: x } }",
    )
    expect(inputOf("use")).toEqual({ sub: { load: LARGE, none: null } })
    expect((await task(runId, "sub")).output).toHaveProperty("key")
  })
})

describe("an output over 16 MiB", () => {
  it.each([
    [
      "an expression",
      "use: { depends_on: [load], command: [x, '${{ tasks.load.output.text }}'] }",
      "use",
      /16 MiB; compute it in a task/,
    ],
    ["a schema", "use: { depends_on: [load], command: x }", "load", /a schema has 16 MiB at most: write the data to a file/],
  ])("fails the task with %s, with the limit and what to do", async (what, use, failed, error) => {
    const { run, task } = await start(HUGE)
    const schema = what === "a schema" ? ", output: { type: object }" : ""
    const runId = await run(`name: huge\ntasks:\n  load: { command: x${schema} }\n  ${use}\n`)
    expect(await task(runId, failed)).toMatchObject({ status: "failed", error: expect.stringMatching(error) })
  })

  it("is passed to downstream tasks and out of child runs", async () => {
    const { run, deploy, inputOf } = await start(HUGE)
    await deploy("name: child\ntasks: { load: { command: x } }")
    await run("name: parent\ntasks: { sub: { executor: workflow, workflow: child }, use: { depends_on: [sub], command: x } }")
    expect(inputOf("use")).toEqual({ sub: { load: HUGE } })
  })
})
