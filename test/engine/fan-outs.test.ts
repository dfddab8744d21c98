import { readdirSync } from "node:fs"
import { describe, expect, it } from "vitest"
import { fail, setup } from "./setup.ts"

const foreach = (rest = ""): string => `
name: each
tasks:
  discover: { command: x }
  process: { command: x, depends_on: [discover], foreach: discover.files${rest} }
  report: { command: x, depends_on: [process] }
`

describe("fan-outs", () => {
  it("run one instance per item and pass their outputs downstream as a list in index order", async () => {
    const fixture = await setup({
      discover: () => ({ files: ["a", "b", "c"] }),
      process: async ({ input, parallelIndex, parallelCount }, { sleep }) => {
        await sleep(100 - parallelIndex! * 10)
        return `${(input as { item: string }).item}${parallelIndex}/${parallelCount}`
      },
    })
    const runId = await fixture.trigger(foreach())
    const run = await fixture.ended(runId)
    expect(run.tasks.success).toBe(5)
    expect(fixture.inputs("report")).toEqual([{ process: ["a0/3", "b1/3", "c2/3"] }])
    expect(Object.keys(await fixture.statuses(runId)).toSorted()).toEqual([
      "discover",
      "process.0",
      "process.1",
      "process.2",
      "report",
    ])
  })

  it.each([
    ["", { files: ["rome.csv", { name: "oslo", id: 1 }, { id: 2 }, [3]] }, ["rome.csv", "oslo", "2", null]],
    [", label: item.city", { files: [{ city: "rome" }, { city: "oslo" }] }, ["rome", "oslo"]],
    [', label: "${{ item }} of ${{ params.region }} (${{ index }})"', { files: ["a", "b"] }, ["a of eu (0)", "b of eu (1)"]],
  ])("label their instances%s", async (field, output, labels) => {
    const fixture = await setup({ discover: () => output })
    const runId = await fixture.trigger(`params: { region: eu }${foreach(field)}`)
    expect((await fixture.ended(runId)).status).toBe("success")
    const tasks = await fixture.store.listTasks({ runId, name: "process", limit: 10 })
    expect(tasks.map(({ label }) => label)).toEqual(labels)
  })

  it("fail when their label cannot be evaluated", async () => {
    const fixture = await setup({ discover: () => ({ files: [{ city: "rome" }, {}] }) })
    expect((await fixture.ended(await fixture.trigger(foreach(", label: item.city")))).status).toBe("failed")
    expect(fixture.events.find(({ task, status }) => task === "process" && status === "failed")?.error).toContain("item.city")
  })

  it("succeed with an empty list when there are no items", async () => {
    const fixture = await setup({ discover: () => ({ files: [] }) })
    const run = await fixture.ended(await fixture.trigger(foreach()))
    expect(run).toMatchObject({ status: "success", tasks: { success: 2 } })
    expect(fixture.inputs("report")).toEqual([{ process: [] }])
  })

  it.each([
    [{ files: 5 }, "foreach needs a list, but discover.files is the number 5"],
    [{ files: null }, "foreach needs a list, but discover.files is null"],
    [{}, "discover"],
  ])("fail the task and name the reference when its value is %j", async (output, message) => {
    const fixture = await setup({ discover: () => output })
    const runId = await fixture.trigger(foreach())
    expect((await fixture.ended(runId)).status).toBe("failed")
    const nodes = await fixture.store.listRowStates(runId)
    expect(nodes.map((node) => node.status)).toEqual(["success", "failed", "skipped"])
    const failure = fixture.events.find((event) => event.task === "process" && event.status === "failed")
    expect(failure?.error).toContain(message)
  })

  it("fail after all instances have finished when one failed, with null as its output", async () => {
    const fixture = await setup({
      discover: () => ({ files: [1, 2, 3] }),
      process: async ({ parallelIndex }, { sleep }) => {
        if (parallelIndex === 1) fail()
        await sleep(1000)
        return parallelIndex
      },
    })
    const runId = await fixture.trigger(foreach().replace("[process] }", "[process], run_when: all_done }"))
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect(await fixture.statuses(runId)).toMatchObject({
      "process.0": "success",
      "process.1": "failed",
      "process.2": "success",
    })
    expect(fixture.inputs("report")).toEqual([{ process: [0, null, 2] }])
  })

  it("create N instances for `parallel`, given as a number or by reference", async () => {
    const fixture = await setup({ a: () => ({ count: 3 }) })
    const runId = await fixture.trigger(`
name: par
tasks:
  a: { command: x }
  four: { command: x, parallel: 4 }
  many: { command: x, depends_on: [a], parallel: a.count }
`)
    expect((await fixture.ended(runId)).tasks.success).toBe(8)
  })

  it("create N instances per item for `foreach` with `parallel`: index = item × N + k", async () => {
    const fixture = await setup()
    await fixture.ended(await fixture.trigger("name: both\ntasks: { t: { command: x, foreach: [p, q], parallel: 2 } }"))
    const seen = fixture.launched.map(({ parallelIndex, parallelCount, input }) => [
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

  it("evaluate an `if` that reads the item once per instance", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: ifs\ntasks: { t: { command: x, foreach: [1, 2, 3], if: item != 2 } }")
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(await fixture.statuses(runId)).toEqual({ "t.0": "success", "t.1": "skipped", "t.2": "success" })
  })

  it("fail the task when there are more instances than allowed", async () => {
    const fixture = await setup({}, { maxFanout: 10 })
    const runId = await fixture.trigger("name: wide\ntasks: { t: { command: x, parallel: 11 } }")
    expect((await fixture.ended(runId)).status).toBe("failed")
  })

  it("create thousands of instances in chunks", async () => {
    const fixture = await setup({}, { concurrency: 100 })
    const run = await fixture.ended(
      await fixture.trigger("name: many\ntasks: { t: { command: x, parallel: 2600 }, last: { command: x, depends_on: [t] } }"),
    )
    expect(run).toMatchObject({ status: "success", tasks: { success: 2601 } })
  })

  it("store a large list of outputs in the object store and pass it downstream as a whole", async () => {
    const fixture = await setup({ t: ({ parallelIndex }) => `${parallelIndex}:${"x".repeat(1000)}` })
    await fixture.ended(
      await fixture.trigger("name: big\ntasks: { t: { command: x, parallel: 100 }, last: { command: x, depends_on: [t] } }"),
    )
    const [input] = fixture.inputs("last") as [{ t: string[] }]
    expect(input.t).toHaveLength(100)
    expect(input.t[99]!.slice(0, 4)).toBe("99:x")
  })

  it("fail the task when their outputs are together too large, and leave no object behind", async () => {
    const fixture = await setup({ t: () => "x".repeat(50_000) }, { maxOutputBytes: 200_000 })
    const runId = await fixture.trigger(
      "name: big\ntasks: { t: { command: x, parallel: 10 }, last: { command: x, depends_on: [t] } }",
    )
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect((await fixture.task(runId, "t")).error).toBe(
      "the outputs of its 10 instances are together larger than 200000 bytes (ORK_MAX_OUTPUT)",
    )
    expect(await fixture.objects.list("runs/")).toEqual([])
  })

  it("write a large upstream output to a file for the instances", async () => {
    const fixture = await setup({ a: () => ({ files: [1, 2], pad: "x".repeat(70_000) }) })
    await fixture.ended(
      await fixture.trigger("name: up\ntasks: { a: { command: x }, t: { command: x, depends_on: [a], foreach: a.files } }"),
    )
    expect(fixture.inputs("t")).toEqual([{ item: 1 }, { item: 2 }])
    expect(fixture.launched.at(-1)!.upstreamDir).toContain("upstream")
  })

  it("write that file again when the run is retried", async () => {
    const files: string[][] = []
    const fixture = await setup({
      a: () => ({ files: [1], pad: "x".repeat(70_000) }),
      t: ({ upstreamDir }) => files.push(readdirSync(upstreamDir!)),
    })
    const text = "name: up\ntasks: { a: { command: x }, t: { command: x, depends_on: [a], foreach: a.files } }"
    const runId = await fixture.trigger(text)
    await fixture.ended(runId)
    await fixture.engine.retry(runId, { from: "t" })
    await fixture.ended(runId)
    expect(files).toEqual([["a.json"], ["a.json"]])
  })

  it("pass the gathered outputs of the latest instances downstream after a retry", async () => {
    let broken = true
    const fixture = await setup({
      t: ({ parallelIndex }) => (parallelIndex === 7 && broken ? fail() : `${parallelIndex}:${"x".repeat(5000)}`),
      last: () => (broken ? fail() : null),
    })
    const text = `
name: again
tasks: { t: { command: x, parallel: 20 }, last: { command: x, depends_on: [t], run_when: all_done } }
`
    const runId = await fixture.trigger(text)
    await fixture.ended(runId)
    broken = false
    await fixture.engine.retry(runId, {})
    expect((await fixture.ended(runId)).status).toBe("success")
    const missing = (fixture.inputs("last") as { t: (string | null)[] }[]).map(
      ({ t }) => t.filter((one) => one === null).length,
    )
    expect(missing).toEqual([1, 0])
  })
})
