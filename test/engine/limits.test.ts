import { describe, expect, it } from "vitest"
import { setup, type Script } from "./setup.ts"

const second: Script = async (_, { sleep }) => {
  await sleep(1000)
  return null
}

/** The largest number of attempts of the named tasks that were live at once. */
const mostAtOnce = (
  events: { type: string; task?: string; path?: string; status: string; runId: string }[],
  of: RegExp,
): number => {
  const live = new Set<string>()
  let max = 0
  for (const event of events) {
    if (event.type !== "task" || !of.test(event.task!)) continue
    const key = `${event.runId} ${event.task} ${event.path}`
    if (event.status === "dispatched") live.add(key)
    else if (event.status !== "running") live.delete(key)
    max = Math.max(max, live.size)
  }
  return max
}

describe("limits", () => {
  it("limit the instances of a task to its concurrency, and use every slot", async () => {
    const fixture = await setup({ t: second })
    await fixture.ended(await fixture.trigger("name: l\ntasks: { t: { command: x, parallel: 20, concurrency: 3 } }"))
    expect(mostAtOnce(fixture.events, /^t$/)).toBe(3)
    expect(fixture.clock.elapsed).toBeLessThan(7500)
  })

  it("limit the tasks of a run to the workflow's concurrency", async () => {
    const fixture = await setup({ t: second, u: second })
    await fixture.ended(
      await fixture.trigger(
        "name: l\nconcurrency: 2\ntasks: { t: { command: x, parallel: 5 }, u: { command: x, parallel: 5 } }",
      ),
    )
    expect(mostAtOnce(fixture.events, /./)).toBe(2)
  })

  it("limit attempts to the engine's concurrency", async () => {
    const fixture = await setup({ t: second }, { concurrency: 4 })
    await fixture.ended(await fixture.trigger("name: l\ntasks: { t: { command: x, parallel: 12 } }"))
    expect(fixture.maxLive()).toBe(4)
  })

  it("limit remote attempts to the concurrency of their queue", async () => {
    const fixture = await setup({ t: second })
    await fixture.store.putQueue("hpc", { concurrency: 2 })
    const runId = await fixture.trigger(`
name: l
tasks: { t: { executor: slurm, queue: hpc, command: x, parallel: 7 }, u: { executor: slurm, command: x, parallel: 9 } }`)
    await fixture.ended(runId)
    expect(mostAtOnce(fixture.events, /^t$/)).toBe(2)
    expect(mostAtOnce(fixture.events, /^u$/)).toBe(9)
    expect(fixture.clock.elapsed).toBeLessThan(5000)
  })

  it("share a keyed limit across runs", async () => {
    const fixture = await setup({ t: second })
    const text = "name: l\ntasks: { t: { command: x, foreach: [eu, us], concurrency: 1, concurrency_key: item } }"
    const runs = [await fixture.trigger(text), await fixture.trigger(text), await fixture.trigger(text)]
    for (const run of runs) await fixture.ended(run)
    expect(mostAtOnce(fixture.events, /^t$/)).toBe(2)
    expect(fixture.clock.elapsed).toBeGreaterThanOrEqual(3000)
  })

  it("keep runs beyond max_active_runs pending and start them oldest first", async () => {
    const fixture = await setup({ t: second })
    const text = "name: l\nmax_active_runs: 1\ntasks: { t: { command: x } }"
    const runs = [await fixture.trigger(text), await fixture.trigger(text), await fixture.trigger(text)]
    await fixture.pass(10)
    expect((await fixture.store.getRun(runs[1]!))!.status).toBe("pending")
    for (const run of runs) expect((await fixture.ended(run)).status).toBe("success")
    const starts = fixture.events
      .filter((event) => event.type === "task" && event.status === "dispatched")
      .map((event) => event.runId)
    expect(starts).toEqual(runs)
  })

  it("start higher priorities first", async () => {
    const fixture = await setup({}, { concurrency: 1 })
    const low = await fixture.trigger("name: low\ntasks: { t: { command: x, parallel: 3 } }", {}, { priority: 1 })
    const high = await fixture.trigger("name: high\ntasks: { t: { command: x, parallel: 3, priority: 9 } }")
    await fixture.ended(low)
    await fixture.ended(high)
    const order = fixture.launched.map((each) => each.workflow)
    expect(order.lastIndexOf("high")).toBeLessThan(order.lastIndexOf("low"))
    expect(order.filter((name) => name === "low").length).toBe(3)
  })
})
