import { describe, expect, it } from "vitest"
import { setup, type Script } from "./world.ts"

const second: Script = async (_, { sleep }) => {
  await sleep(1000)
  return null
}

/** The most attempts of the tasks named that were live at once. */
const mostAtOnce = (
  events: { type: string; task?: string; path?: string; status: string; runId: string }[],
  of: RegExp,
): number => {
  const live = new Set<string>()
  let most = 0
  for (const event of events) {
    if (event.type !== "task" || !of.test(event.task!)) continue
    const key = `${event.runId} ${event.task} ${event.path}`
    if (event.status === "dispatched") live.add(key)
    else if (event.status !== "running") live.delete(key)
    most = Math.max(most, live.size)
  }
  return most
}

describe("limits", () => {
  it("keep instances of a task to its concurrency, and use every slot", async () => {
    const world = await setup({ t: second })
    await world.ended(await world.trigger("name: l\ntasks: { t: { command: x, parallel: 20, concurrency: 3 } }"))
    expect(mostAtOnce(world.events, /^t$/)).toBe(3)
    expect(world.clock.elapsed).toBeLessThan(7500)
  })

  it("keep tasks of a run to the workflow's concurrency", async () => {
    const world = await setup({ t: second, u: second })
    await world.ended(
      await world.trigger("name: l\nconcurrency: 2\ntasks: { t: { command: x, parallel: 5 }, u: { command: x, parallel: 5 } }"),
    )
    expect(mostAtOnce(world.events, /./)).toBe(2)
  })

  it("keep attempts to the engine's concurrency", async () => {
    const world = await setup({ t: second }, { concurrency: 4 })
    await world.ended(await world.trigger("name: l\ntasks: { t: { command: x, parallel: 12 } }"))
    expect(world.most()).toBe(4)
  })

  it("keep work that lives elsewhere to the concurrency of its queue, however much a server may have", async () => {
    const world = await setup({ t: second })
    await world.store.putQueue("hpc", { concurrency: 2 })
    const runId = await world.trigger(`
name: l
tasks: { t: { executor: slurm, queue: hpc, command: x, parallel: 7 }, u: { executor: slurm, command: x, parallel: 9 } }`)
    await world.ended(runId)
    expect(mostAtOnce(world.events, /^t$/)).toBe(2)
    expect(mostAtOnce(world.events, /^u$/)).toBe(9)
    expect(world.clock.elapsed).toBeLessThan(5000)
  })

  it("share a keyed limit across runs", async () => {
    const world = await setup({ t: second })
    const text = "name: l\ntasks: { t: { command: x, foreach: [eu, us], concurrency: 1, concurrency_key: item } }"
    const runs = [await world.trigger(text), await world.trigger(text), await world.trigger(text)]
    for (const run of runs) await world.ended(run)
    expect(mostAtOnce(world.events, /^t$/)).toBe(2)
    expect(world.clock.elapsed).toBeGreaterThanOrEqual(3000)
  })

  it("hold runs over max_active_runs as pending and start them oldest first", async () => {
    const world = await setup({ t: second })
    const text = "name: l\nmax_active_runs: 1\ntasks: { t: { command: x } }"
    const runs = [await world.trigger(text), await world.trigger(text), await world.trigger(text)]
    await world.pass(10)
    expect((await world.store.getRun(runs[1]!))!.status).toBe("pending")
    for (const run of runs) expect((await world.ended(run)).status).toBe("success")
    const starts = world.events
      .filter((event) => event.type === "task" && event.status === "dispatched")
      .map((event) => event.runId)
    expect(starts).toEqual(runs)
  })

  it("start higher priorities first", async () => {
    const world = await setup({}, { concurrency: 1 })
    const low = await world.trigger("name: low\ntasks: { t: { command: x, parallel: 3 } }", {}, { priority: 1 })
    const high = await world.trigger("name: high\ntasks: { t: { command: x, parallel: 3, priority: 9 } }")
    await world.ended(low)
    await world.ended(high)
    const order = world.launched.map((each) => each.workflow)
    expect(order.lastIndexOf("high")).toBeLessThan(order.lastIndexOf("low"))
    expect(order.filter((name) => name === "low").length).toBe(3)
  })
})
