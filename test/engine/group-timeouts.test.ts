import { describe, expect, it } from "vitest"
import { explain } from "../../src/engine/services/explain.ts"
import { fail, setup, type Script } from "./world.ts"

const hang: Script = (_, { untilStopped }) => untilStopped()

const SLOW = `
name: slow
tasks:
  g:
    timeout: 10s
    tasks:
      a: { command: x, retries: 3 }
      b: { command: x, depends_on: [a] }
  below: { command: x, depends_on: [g] }
  always: { command: x, depends_on: [g], run_when: all_done }
`

describe("a group with a timeout", () => {
  it("is stopped when its time is over, and fails; what is beside and below it goes by its rules", async () => {
    const world = await setup({ "g.a": hang })
    const runId = await world.trigger(SLOW)
    const begun = world.clock.now()
    expect(await world.ended(runId)).toMatchObject({ status: "failed", error: "task g failed" })
    expect(world.clock.now() - begun).toBeLessThan(12_000)
    expect(await world.task(runId, "g")).toMatchObject({ status: "failed", error: "timed out after 10s" })
    expect(await world.statuses(runId)).toEqual({
      "g.a": "cancelled",
      "g.b": "cancelled",
      below: "skipped",
      always: "success",
    })
    expect(await world.task(runId, "g.a")).toMatchObject({ attempt: 1 })
    const told = await explain({ store: world.store, lives: () => true }, runId)
    const why = told.find(({ task }) => task === "g.b")
    expect(why?.sentence).toBe("g.b was cancelled with the group g, which timed out.")
  })

  it("that ends in time is not touched, though the run goes on for longer", async () => {
    const world = await setup({
      always: async (_, { sleep }) => {
        await sleep(60_000)
        return null
      },
    })
    expect((await world.ended(await world.trigger(SLOW))).status).toBe("success")
  })

  it("is timed item by item", async () => {
    const world = await setup({ "g.a": (assignment, tools) => (assignment.path === "1" ? tools.untilStopped() : 7) })
    const runId = await world.trigger(SLOW.replace("timeout: 10s", "timeout: 10s\n    foreach: [x, y, z]"))
    await world.ended(runId)
    const status = async (path: string) => (await world.task(runId, "g", path)).status
    expect([await status("0"), await status("1"), await status("2")]).toEqual(["success", "failed", "success"])
    expect((await world.task(runId, "g")).error).toBe("1 of 3 instances failed")
  })

  it("ends whatever waits in it: sleeps, approvals, retries, sub-workflows, deferred work, groups", async () => {
    const world = await setup({
      "g.again": () => fail(),
      "g.later": () => ({ ork_defer: { callback: {} } }),
      "g.inner.x": hang,
      leaf: hang,
    })
    await world.deploy("name: child\ntasks: { leaf: { command: x } }")
    const runId = await world.trigger(`
name: waits
tasks:
  g:
    timeout: 1m
    tasks:
      nap: { executor: sleep, duration: 1d }
      ask: { executor: approval }
      again: { command: x, retry: { max_attempts: 2, base_delay: 1h, max_delay: 1h } }
      sub: { executor: workflow, workflow: child }
      later: { command: x }
      inner: { tasks: { x: { command: x }, y: { command: x, depends_on: [x] } } }
      each: { foreach: [1, 2], executor: sleep, duration: 1d }
`)
    await world.ended(runId)
    const ends = new Set(Object.values(await world.statuses(runId)))
    expect([...ends]).toEqual(["cancelled"])
    expect((await world.task(runId, "g")).error).toBe("timed out after 1m")
    const [child] = await world.store.listRuns({ workflow: "child", limit: 1 })
    expect(child).toMatchObject({ status: "cancelled" })
  })

  it("inside of another is ended by whichever time is over first", async () => {
    const world = await setup({ "o.fast.x": hang, "o.slow.x": hang })
    const runId = await world.trigger(`
name: nested
tasks:
  o:
    timeout: 1m
    tasks:
      fast: { timeout: 10s, tasks: { x: { command: x } } }
      slow: { timeout: 10m, tasks: { x: { command: x } } }
`)
    await world.ended(runId)
    expect(await world.task(runId, "o.fast")).toMatchObject({ status: "failed", error: "timed out after 10s" })
    expect(await world.task(runId, "o.slow")).toMatchObject({ status: "cancelled" })
    expect(await world.task(runId, "o")).toMatchObject({ status: "failed", error: "timed out after 1m" })
  })

  it("takes none from the defaults, which are for tasks", async () => {
    const world = await setup({
      "g.a": async (_, { sleep }) => {
        await sleep(8000)
        return null
      },
      "g.b": async (_, { sleep }) => {
        await sleep(8000)
        return null
      },
    })
    const text = SLOW.replace("    timeout: 10s\n", "").replace("name: slow", "name: slow\ndefaults: { timeout: 10s }")
    expect((await world.ended(await world.trigger(text))).status).toBe("success")
  })

  it("has its whole time again when the run is retried", async () => {
    let slow = true
    const world = await setup({ "g.a": (assignment, tools) => (slow ? hang(assignment, tools) : 1) })
    const runId = await world.trigger(SLOW)
    await world.ended(runId)
    slow = false
    await world.until(world.engine.retry(runId, {}))
    expect((await world.ended(runId)).status).toBe("success")
  })
})
