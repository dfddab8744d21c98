import { readdirSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { fail, setup } from "./world.ts"

const foreach = (rest = ""): string => `
name: each
tasks:
  discover: { command: x }
  process: { command: x, depends_on: [discover], foreach: discover.files${rest} }
  report: { command: x, depends_on: [process] }
`

describe("fan-outs", () => {
  it("run one instance per item and give their outputs below as a list in index order", async () => {
    const world = await setup({
      discover: () => ({ files: ["a", "b", "c"] }),
      process: async ({ input, parallelIndex, parallelCount }, { sleep }) => {
        await sleep(100 - parallelIndex! * 10)
        return `${(input as { item: string }).item}${parallelIndex}/${parallelCount}`
      },
    })
    const runId = await world.trigger(foreach())
    const run = await world.ended(runId)
    expect(run.tasks.success).toBe(5)
    expect(world.inputs("report")).toEqual([{ process: ["a0/3", "b1/3", "c2/3"] }])
    expect(Object.keys(await world.statuses(runId)).toSorted()).toEqual([
      "discover",
      "process.0",
      "process.1",
      "process.2",
      "report",
    ])
  })

  it("end as success with an empty list for no items", async () => {
    const world = await setup({ discover: () => ({ files: [] }) })
    const run = await world.ended(await world.trigger(foreach()))
    expect(run).toMatchObject({ status: "success", tasks: { success: 2 } })
    expect(world.inputs("report")).toEqual([{ process: [] }])
  })

  it.each([
    [{ files: 5 }, "foreach needs a list, but discover.files is the number 5"],
    [{ files: null }, "foreach needs a list, but discover.files is null"],
    [{}, "discover"],
  ])("fail the task, naming the reference, when it gives %j", async (output, message) => {
    const world = await setup({ discover: () => output })
    const runId = await world.trigger(foreach())
    expect((await world.ended(runId)).status).toBe("failed")
    const nodes = await world.store.listNodes(runId)
    expect(nodes.map((node) => node.status)).toEqual(["success", "failed", "skipped"])
    const told = world.events.find((event) => event.task === "process" && event.status === "failed")
    expect(told?.error).toContain(message)
  })

  it("fail after all siblings have ended when one instance fails, with null in its place", async () => {
    const world = await setup({
      discover: () => ({ files: [1, 2, 3] }),
      process: async ({ parallelIndex }, { sleep }) => {
        if (parallelIndex === 1) fail()
        await sleep(1000)
        return parallelIndex
      },
    })
    const runId = await world.trigger(foreach().replace("[process] }", "[process], run_when: all_done }"))
    expect((await world.ended(runId)).status).toBe("failed")
    expect(await world.statuses(runId)).toMatchObject({ "process.0": "success", "process.1": "failed", "process.2": "success" })
    expect(world.inputs("report")).toEqual([{ process: [0, null, 2] }])
  })

  it("make N instances for `parallel`, static or by reference", async () => {
    const world = await setup({ a: () => ({ count: 3 }) })
    const runId = await world.trigger(`
name: par
tasks:
  a: { command: x }
  four: { command: x, parallel: 4 }
  many: { command: x, depends_on: [a], parallel: a.count }
`)
    expect((await world.ended(runId)).tasks.success).toBe(8)
  })

  it("make N instances per item for both, index = item × N + k", async () => {
    const world = await setup()
    await world.ended(await world.trigger("name: both\ntasks: { t: { command: x, foreach: [p, q], parallel: 2 } }"))
    const seen = world.launched.map(({ parallelIndex, parallelCount, input }) => [
      parallelIndex,
      parallelCount,
      (input as { item: string }).item,
    ])
    expect(seen.toSorted(([a], [b]) => Number(a) - Number(b))).toEqual([
      [0, 4, "p"],
      [1, 4, "p"],
      [2, 4, "q"],
      [3, 4, "q"],
    ])
  })

  it("judge an `if` that speaks of the item for each instance", async () => {
    const world = await setup()
    const runId = await world.trigger("name: ifs\ntasks: { t: { command: x, foreach: [1, 2, 3], if: item != 2 } }")
    expect((await world.ended(runId)).status).toBe("success")
    expect(await world.statuses(runId)).toEqual({ "t.0": "success", "t.1": "skipped", "t.2": "success" })
  })

  it("refuse more instances than allowed", async () => {
    const world = await setup({}, { maxFanout: 10 })
    const runId = await world.trigger("name: wide\ntasks: { t: { command: x, parallel: 11 } }")
    expect((await world.ended(runId)).status).toBe("failed")
  })

  it("go through thousands of instances, in chunks", async () => {
    const world = await setup({}, { concurrency: 100 })
    const run = await world.ended(
      await world.trigger("name: many\ntasks: { t: { command: x, parallel: 2600 }, last: { command: x, depends_on: [t] } }"),
    )
    expect(run).toMatchObject({ status: "success", tasks: { success: 2601 } })
  })

  it("keep a large list of outputs in the object store and give it below whole", async () => {
    const world = await setup({ t: ({ parallelIndex }) => `${parallelIndex}:${"x".repeat(1000)}` })
    await world.ended(
      await world.trigger("name: big\ntasks: { t: { command: x, parallel: 100 }, last: { command: x, depends_on: [t] } }"),
    )
    const [input] = world.inputs("last") as [{ t: string[] }]
    expect(input.t).toHaveLength(100)
    expect(input.t[99]!.slice(0, 4)).toBe("99:x")
  })

  it("leave a large upstream output in a file for the instances of a fan-out", async () => {
    const world = await setup({ a: () => ({ files: [1, 2], pad: "x".repeat(70_000) }) })
    await world.ended(
      await world.trigger("name: up\ntasks: { a: { command: x }, t: { command: x, depends_on: [a], foreach: a.files } }"),
    )
    expect(world.inputs("t")).toEqual([{ item: 1 }, { item: 2 }])
    expect(world.launched.at(-1)!.upstreamDir).toContain("upstream")
  })

  it("write that file again for a run that is retried", async () => {
    const files: string[][] = []
    const world = await setup({
      a: () => ({ files: [1], pad: "x".repeat(70_000) }),
      t: ({ upstreamDir }) => files.push(readdirSync(upstreamDir!)),
    })
    const text = "name: up\ntasks: { a: { command: x }, t: { command: x, depends_on: [a], foreach: a.files } }"
    const runId = await world.trigger(text)
    await world.ended(runId)
    await world.engine.retry(runId, { from: "t" })
    await world.ended(runId)
    expect(files).toEqual([["a.json"], ["a.json"]])
  })
})
