import { describe, expect, it } from "vitest"
import { explain } from "../../src/engine/services/explain.ts"
import { fail, setup, type Script } from "./setup.ts"

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
  it("is stopped at its timeout and fails, and the tasks around it follow their rules", async () => {
    const fixture = await setup({ "g.a": hang })
    const runId = await fixture.trigger(SLOW)
    const startedAt = fixture.clock.now()
    expect(await fixture.ended(runId)).toMatchObject({ status: "failed", error: "task g failed" })
    expect(fixture.clock.now() - startedAt).toBeLessThan(12_000)
    expect(await fixture.task(runId, "g")).toMatchObject({ status: "failed", error: "timed out after 10s" })
    expect(await fixture.statuses(runId)).toEqual({
      "g.a": "cancelled",
      "g.b": "cancelled",
      below: "skipped",
      always: "success",
    })
    expect(await fixture.task(runId, "g.a")).toMatchObject({ attempt: 1 })
    const sentences = await explain({ store: fixture.store, isAlive: () => true }, runId)
    const why = sentences.find(({ task }) => task === "g.b")
    expect(why?.sentence).toBe("g.b was cancelled with the group g, which timed out.")
  })

  it("is not affected when it finishes in time and the run takes longer", async () => {
    const fixture = await setup({
      always: async (_, { sleep }) => {
        await sleep(60_000)
        return null
      },
    })
    expect((await fixture.ended(await fixture.trigger(SLOW))).status).toBe("success")
  })

  it("has a timeout per item", async () => {
    const fixture = await setup({ "g.a": (assignment, tools) => (assignment.path === "1" ? tools.untilStopped() : 7) })
    const runId = await fixture.trigger(SLOW.replace("timeout: 10s", "timeout: 10s\n    foreach: [x, y, z]"))
    await fixture.ended(runId)
    const status = async (path: string) => (await fixture.task(runId, "g", path)).status
    expect([await status("0"), await status("1"), await status("2")]).toEqual(["success", "failed", "success"])
    expect((await fixture.task(runId, "g")).error).toBe("1 of 3 instances failed")
  })

  it("cancels everything that waits in it: sleeps, approvals, retries, sub-workflows, deferred tasks, groups", async () => {
    const fixture = await setup({
      "g.again": () => fail(),
      "g.later": () => ({ ork_defer: { callback: {} } }),
      "g.inner.x": hang,
      leaf: hang,
    })
    await fixture.deploy("name: child\ntasks: { leaf: { command: x } }")
    const runId = await fixture.trigger(`
name: waits
tasks:
  g:
    timeout: 1m
    tasks:
      nap: { executor: sleep, duration: 1d }
      ask: { executor: approval }
      again: { command: x, retry: { max_attempts: 2, base_delay: 1h, max_delay: 1h } }
      sub: { executor: workflow, workflow: child }
      later: { command: x, defer: true }
      inner: { tasks: { x: { command: x }, y: { command: x, depends_on: [x] } } }
      each: { foreach: [1, 2], executor: sleep, duration: 1d }
`)
    await fixture.ended(runId)
    const ends = new Set(Object.values(await fixture.statuses(runId)))
    expect([...ends]).toEqual(["cancelled"])
    expect((await fixture.task(runId, "g")).error).toBe("timed out after 1m")
    const [child] = await fixture.store.listRuns({ workflow: "child", limit: 1 })
    expect(child).toMatchObject({ status: "cancelled" })
  })

  it("nested in another one is stopped by the timeout that passes first", async () => {
    const fixture = await setup({ "o.fast.x": hang, "o.slow.x": hang })
    const runId = await fixture.trigger(`
name: nested
tasks:
  o:
    timeout: 1m
    tasks:
      fast: { timeout: 10s, tasks: { x: { command: x } } }
      slow: { timeout: 10m, tasks: { x: { command: x } } }
`)
    await fixture.ended(runId)
    expect(await fixture.task(runId, "o.fast")).toMatchObject({ status: "failed", error: "timed out after 10s" })
    expect(await fixture.task(runId, "o.slow")).toMatchObject({ status: "cancelled" })
    expect(await fixture.task(runId, "o")).toMatchObject({ status: "failed", error: "timed out after 1m" })
  })

  it("takes no timeout from the defaults, which apply to tasks only", async () => {
    const fixture = await setup({
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
    expect((await fixture.ended(await fixture.trigger(text))).status).toBe("success")
  })

  it("starts its timeout again when the run is retried", async () => {
    let slow = true
    const fixture = await setup({ "g.a": (assignment, tools) => (slow ? hang(assignment, tools) : 1) })
    const runId = await fixture.trigger(SLOW)
    await fixture.ended(runId)
    slow = false
    await fixture.until(fixture.engine.retry(runId, {}))
    expect((await fixture.ended(runId)).status).toBe("success")
  })
})
