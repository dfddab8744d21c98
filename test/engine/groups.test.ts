import { describe, expect, it } from "vitest"
import type { Json } from "../../src/core/values/json.ts"
import { fail, setup } from "./setup.ts"

const REGIONS = `
name: regions
tasks:
  discover: { command: x }
  region:
    depends_on: [discover]
    foreach: discover.regions
    tasks:
      extract: { command: x, input: { region: "\${{ parent.item }}", at: "\${{ parent.index }}" } }
      load: { command: x, depends_on: [extract] }
  report: { command: x, depends_on: [region] }
`

const regions = (list: Json) => ({ discover: () => ({ regions: list }) })

describe("a group", () => {
  it("runs its tasks as a graph and counts as one task for its downstream tasks", async () => {
    const fixture = await setup({ "prepare.a": () => 1, "prepare.b": ({ input }) => ({ got: input }) })
    const runId = await fixture.trigger(`
name: plain
tasks:
  first: { command: x }
  prepare:
    depends_on: [first]
    tasks:
      a: { command: x }
      b: { command: x, depends_on: [a], input: { seen: "\${{ tasks.first.status }} \${{ tasks.a.output }}" } }
  last: { command: x, depends_on: [prepare] }
`)
    const run = await fixture.ended(runId)
    expect(run).toMatchObject({ status: "success", tasks: { success: 4 } })
    expect(fixture.launched.map(({ task }) => task)).toEqual(["first", "prepare.a", "prepare.b", "last"])
    expect(fixture.inputs("prepare.b")).toEqual([{ a: 1, seen: "success 1" }])
    expect(fixture.inputs("last")).toEqual([{ prepare: { a: 1, b: { got: { a: 1, seen: "success 1" } } } }])
  })

  it("runs once per item of foreach, exposes the item as parent.item, and passes a list downstream", async () => {
    const fixture = await setup({
      ...regions(["eu", "us"]),
      "region.extract": ({ input }) => input,
      "region.load": ({ input, path }) => ({ path, rows: input }),
    })
    const runId = await fixture.trigger(REGIONS)
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 6 } })
    const item = (region: string, at: number) => ({
      extract: { region, at },
      load: { path: `${at}`, rows: { extract: { region, at } } },
    })
    expect(fixture.inputs("report")).toEqual([{ region: [item("eu", 0), item("us", 1)] }])
    expect(await fixture.statuses(runId)).toEqual({
      discover: "success",
      "region.extract.0": "success",
      "region.load.0": "success",
      "region.extract.1": "success",
      "region.load.1": "success",
      report: "success",
    })
  })

  it("runs each item without waiting for the others", async () => {
    const fixture = await setup({
      ...regions([1000, 10]),
      "region.extract": async ({ input }, { sleep }) => {
        await sleep((input as { region: number }).region)
        return null
      },
    })
    await fixture.ended(await fixture.trigger(REGIONS))
    const order = fixture.events.filter(({ status }) => status === "success").map(({ task, path }) => `${task}[${path}]`)
    expect(order.indexOf("region.load[1]")).toBeLessThan(order.indexOf("region.extract[0]"))
  })

  it("succeeds with an empty list when there are no items", async () => {
    const fixture = await setup(regions([]))
    const run = await fixture.ended(await fixture.trigger(REGIONS))
    expect(run).toMatchObject({ status: "success", tasks: { success: 2 } })
    expect(fixture.inputs("report")).toEqual([{ region: [] }])
  })

  it("fails after all items have finished when a task in it failed, and names the task", async () => {
    const fixture = await setup({ ...regions([0, 1]), "region.extract": ({ path }) => (path === "1" ? fail() : path) })
    const runId = await fixture.trigger(REGIONS)
    expect(await fixture.ended(runId)).toMatchObject({
      status: "failed",
      error: "task region failed",
      tasks: { success: 3, failed: 1, skipped: 2 },
    })
    expect(await fixture.statuses(runId)).toMatchObject({
      "region.load.0": "success",
      "region.load.1": "skipped",
      report: "skipped",
    })
    expect(await fixture.task(runId, "region", "1")).toMatchObject({ status: "failed", error: "task extract failed" })
    expect(await fixture.task(runId, "region")).toMatchObject({ status: "failed", error: "1 of 2 instances failed" })
  })

  it("is skipped as a whole by its rule or its if, without creating tasks", async () => {
    const fixture = await setup({ a: () => fail() })
    const runId = await fixture.trigger(`
name: skipped
tasks:
  a: { command: x }
  g: { depends_on: [a], tasks: { x: { command: x } } }
  h: { if: "false", tasks: { x: { command: x } } }
  i: { foreach: [1, 2], if: item == 2, tasks: { x: { command: x } } }
`)
    expect((await fixture.ended(runId)).tasks).toMatchObject({ failed: 1, skipped: 0, success: 1 })
    expect(await fixture.statuses(runId)).toEqual({ a: "failed", "i.x.1": "success" })
    expect(await fixture.task(runId, "g")).toMatchObject({ status: "skipped", skipReason: "unmet" })
    expect(await fixture.task(runId, "h")).toMatchObject({ status: "skipped", skipReason: "waived" })
    expect(await fixture.task(runId, "i", "0")).toMatchObject({ status: "skipped", skipReason: "waived" })
  })

  it("evaluates the rules of its tasks within each item", async () => {
    const fixture = await setup({ "g.a": ({ path }) => (path === "0" ? fail() : null) })
    const runId = await fixture.trigger(`
name: rules
tasks:
  g:
    foreach: [x, y]
    tasks:
      a: { command: x }
      rescue: { command: x, depends_on: [a], run_when: any_failed }
      done: { command: x, depends_on: [a, rescue], run_when: all_done }
`)
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect(await fixture.statuses(runId)).toEqual({
      "g.a.0": "failed",
      "g.rescue.0": "success",
      "g.done.0": "success",
      "g.a.1": "success",
      "g.rescue.1": "skipped",
      "g.done.1": "success",
    })
  })

  it("nests: fan-outs in groups with items in groups with items, each with its parent", async () => {
    const fixture = await setup({
      top: () => [["a", "b"], ["c"]],
      "outer.inner.leaf": ({ input, path, parallelCount }) => ({ path, parallelCount, ...(input as object) }),
    })
    const runId = await fixture.trigger(`
name: nested
tasks:
  top: { command: x }
  outer:
    depends_on: [top]
    foreach: top
    tasks:
      inner:
        foreach: parent.item
        tasks:
          leaf:
            command: x
            foreach: [1, 2]
            input: { letter: "\${{ parent.item }}", of: "\${{ tasks.top.output.size() }}", at: "\${{ parent.index }}.\${{ index }}" }
          last: { command: x, depends_on: [leaf], input: { n: "\${{ tasks.leaf.output.size() }}" } }
  report: { command: x, depends_on: [outer] }
`)
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 2 + 3 * 3 } })
    const leaf = (path: string, letter: string, item: number) => {
      const [, at, index] = path.split(".")
      return { path, parallelCount: 2, item, letter, of: 2, at: `${at}.${index}` }
    }
    const inner = (path: string, letter: string) => ({
      leaf: [leaf(`${path}.0`, letter, 1), leaf(`${path}.1`, letter, 2)],
      last: null,
    })
    expect(fixture.inputs("report")).toEqual([
      { outer: [{ inner: [inner("0.0", "a"), inner("0.1", "b")] }, { inner: [inner("1.0", "c")] }] },
    ])
    expect(fixture.inputs("outer.inner.last")).toHaveLength(3)
    expect(await fixture.task(runId, "outer.inner.leaf", "1.0.1")).toMatchObject({ status: "success", item: 2 })
  })

  it("stores large outputs separately and joins them from the object store", async () => {
    const big = "x".repeat(50_000)
    const fixture = await setup({ ...regions([0, 1, 2]), "region.extract": () => ({ big }), "region.load": () => ({ big }) })
    expect((await fixture.ended(await fixture.trigger(REGIONS))).status).toBe("success")
    const [input] = fixture.inputs("report") as [{ region: { extract: { big: string }; load: { big: string } }[] }]
    expect(input.region.map((each) => each.load.big.length + each.extract.big.length)).toEqual([100_000, 100_000, 100_000])
  })

  it("writes large outputs to separate files for each item", async () => {
    const { readFileSync } = await import("node:fs")
    const fixture = await setup({
      "g.make": ({ path }) => path.repeat(70_000),
      "g.each": ({ upstreamDir }) => (JSON.parse(readFileSync(`${upstreamDir}/make.json`, "utf8")) as string).slice(0, 2),
    })
    const runId = await fixture.trigger(`
name: files
tasks:
  g: { foreach: [0, 1], tasks: { make: { command: x }, each: { command: x, depends_on: [make], foreach: [1] } } }
  report: { command: x, depends_on: [g], input: { g: "\${{ tasks.g.output.map(o, o.each) }}" } }
`)
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(fixture.inputs("report")).toEqual([{ g: [["00"], ["11"]] }])
  })
})

describe("concurrency of a group", () => {
  it("limits the items that are open at once", async () => {
    let open = 0
    let maxOpen = 0
    const fixture = await setup({
      "g.a": async (_, { sleep }) => {
        maxOpen = Math.max(maxOpen, ++open)
        await sleep(10)
        return null
      },
      "g.b": async (_, { sleep }) => {
        await sleep(10)
        open--
        return null
      },
    })
    const runId = await fixture.trigger(`
name: few
tasks:
  g: { parallel: 7, concurrency: 2, tasks: { a: { command: x }, b: { command: x, depends_on: [a] } } }
`)
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 14 } })
    expect(maxOpen).toBe(2)
  })

  it("opens the next item when an item is skipped", async () => {
    const fixture = await setup({})
    const runId = await fixture.trigger(`
name: skips
tasks:
  g: { parallel: 8, concurrency: 1, if: index % 3 == 0, tasks: { a: { command: x } } }
`)
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 3 } })
  })

  it("of a task in it is counted over all items of the run", async () => {
    const fixture = await setup({ "g.a": (_, { sleep }) => sleep(5).then(() => null) })
    const runId = await fixture.trigger(`
name: inner
tasks:
  g: { parallel: 6, tasks: { a: { command: x, concurrency: 2 } } }
`)
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(fixture.maxLive()).toBe(2)
  })
})

describe("control of groups", () => {
  it("a cancel reaches every level, stops running tasks and cancels the group", async () => {
    const fixture = await setup({ "g.h.a": (_, { untilStopped }) => untilStopped() })
    const runId = await fixture.trigger(`
name: stopped
tasks:
  g: { foreach: [1, 2], tasks: { h: { foreach: [1, 2], tasks: { a: { command: x }, b: { command: x, depends_on: [a] } } } } }
  after: { command: x, depends_on: [g] }
`)
    await fixture.pass(100)
    await fixture.until(fixture.engine.cancel(runId))
    expect(await fixture.ended(runId)).toMatchObject({ status: "cancelled", tasks: { cancelled: 9 } })
    for (const path of ["", "0", "1"]) expect((await fixture.task(runId, "g", path)).status).toBe("cancelled")
    expect((await fixture.task(runId, "g.h", "1.1")).status).toBe("cancelled")
  })

  it("a pause keeps the tasks inside from starting until the run is resumed", async () => {
    const fixture = await setup({ "g.a": (_, { sleep }) => sleep(1000).then(() => null) })
    const runId = await fixture.trigger(`
name: paused
tasks:
  g: { foreach: [1], tasks: { a: { command: x }, b: { command: x, depends_on: [a] } } }
`)
    await fixture.pass(10)
    await fixture.until(fixture.engine.setPaused(runId, true))
    await fixture.pass(5000)
    expect(await fixture.statuses(runId)).toEqual({ "g.a.0": "success", "g.b.0": "pending" })
    await fixture.until(fixture.engine.setPaused(runId, false))
    expect((await fixture.ended(runId)).status).toBe("success")
  })
})

describe("a retry of groups", () => {
  const failing = (broken: { [task: string]: boolean }) => {
    const script = ({ task, path }: { task: string; path: string }): Json => (broken[`${task}[${path}]`] ? fail() : path)
    return { ...regions(["a", "b", "c"]), "region.extract": script, "region.load": script }
  }

  it("runs the failed tasks of failed items again and keeps the rest", async () => {
    const broken: { [task: string]: boolean } = { "region.load[1]": true }
    const fixture = await setup(failing(broken))
    const runId = await fixture.trigger(REGIONS)
    expect((await fixture.ended(runId)).status).toBe("failed")
    broken["region.load[1]"] = false
    const { again, kept } = await fixture.until(fixture.engine.planRetry(runId, {}))
    expect(again).toEqual(["region.load[1]", "report"])
    expect(kept).toEqual(["discover", "region.extract[1]"])
    fixture.launched.length = 0
    await fixture.until(fixture.engine.retry(runId, {}))
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 8 } })
    expect(fixture.launched.map(({ task, path }) => `${task}[${path}]`)).toEqual(["region.load[1]", "report[]"])
    expect(fixture.inputs("report")).toEqual([{ region: ["0", "1", "2"].map((path) => ({ extract: path, load: path })) }])
  })

  it("runs all tasks of one item and the downstream tasks", async () => {
    const fixture = await setup(failing({}))
    const runId = await fixture.trigger(REGIONS)
    await fixture.ended(runId)
    fixture.launched.length = 0
    const plan = await fixture.until(fixture.engine.planRetry(runId, { instance: { task: "region", path: "2" } }))
    expect(plan.again).toEqual(["region[2]", "report"])
    await fixture.until(fixture.engine.retry(runId, { instance: { task: "region", path: "2" } }))
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 8 } })
    expect(fixture.launched.map(({ task, path, attempt }) => `${task}[${path}] ${attempt}`)).toEqual([
      "region.extract[2] 2",
      "region.load[2] 2",
      "report[] 2",
    ])
  })

  it("runs one task of one item and its downstream tasks inside and outside the group", async () => {
    const fixture = await setup(failing({}))
    const runId = await fixture.trigger(REGIONS)
    await fixture.ended(runId)
    fixture.launched.length = 0
    await fixture.until(fixture.engine.retry(runId, { instance: { task: "region.load", path: "0" } }))
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 8 } })
    expect(fixture.launched.map(({ task, path }) => `${task}[${path}]`)).toEqual(["region.load[0]", "report[]"])
  })

  it("from an inner task runs it in every item", async () => {
    const fixture = await setup(failing({}))
    const runId = await fixture.trigger(REGIONS)
    await fixture.ended(runId)
    fixture.launched.length = 0
    await fixture.until(fixture.engine.retry(runId, { from: "region.load" }))
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 8 } })
    expect(fixture.launched.map(({ task }) => task).toSorted()).toEqual(["region.load", "region.load", "region.load", "report"])
  })

  it("from the group or upstream of it expands the group again and removes items that no longer exist", async () => {
    let list = ["a", "b", "c"]
    const fixture = await setup({ discover: () => ({ regions: list }) })
    const runId = await fixture.trigger(REGIONS)
    expect((await fixture.ended(runId)).tasks.success).toBe(8)
    list = ["z"]
    await fixture.until(fixture.engine.retry(runId, { from: "discover" }))
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 4 } })
    expect(await fixture.statuses(runId)).toEqual({
      discover: "success",
      "region.extract.0": "success",
      "region.load.0": "success",
      report: "success",
    })
  })

  it("of one instance of a fan-out in an item runs only that instance", async () => {
    const fixture = await setup({ "g.each": ({ path }) => path })
    const runId = await fixture.trigger(`
name: deep
tasks:
  g: { foreach: [1, 2], tasks: { each: { command: x, foreach: [1, 2, 3] }, sum: { command: x, depends_on: [each] } } }
  report: { command: x, depends_on: [g] }
`)
    await fixture.ended(runId)
    fixture.launched.length = 0
    const request = { instance: { task: "g.each", path: "1.2" } }
    expect((await fixture.until(fixture.engine.planRetry(runId, request))).again).toEqual(["g.sum[1]", "g.each[1.2]", "report"])
    await fixture.until(fixture.engine.retry(runId, request))
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 9 } })
    expect(fixture.launched.map(({ task, path }) => `${task}[${path}]`)).toEqual(["g.each[1.2]", "g.sum[1]", "report[]"])
    expect(fixture.inputs("g.sum")).toEqual([{ each: ["1.0", "1.1", "1.2"] }])
  })

  it("of something that does not exist is rejected", async () => {
    const fixture = await setup(failing({}))
    const runId = await fixture.trigger(REGIONS)
    await fixture.ended(runId)
    const plan = (task: string, path: string) => fixture.until(fixture.engine.planRetry(runId, { instance: { task, path } }))
    await expect(plan("region", "7")).rejects.toThrow("task region has no instance 7")
    await expect(plan("region.load", "7")).rejects.toThrow("the run has no task region.load at 7")
    await expect(plan("region.nope", "0")).rejects.toThrow("the run has no task region.nope")
  })
})
