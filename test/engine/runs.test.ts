import { describe, expect, it } from "vitest"
import { fail, setup } from "./world.ts"

describe("retry of a run", () => {
  const text = `
name: again
tasks:
  a: { command: x }
  b: { command: x, depends_on: [a] }
  c: { command: x, depends_on: [b] }
`
  it("takes failed and skipped tasks again and keeps successes", async () => {
    let broken = true
    const world = await setup({ b: () => (broken ? fail() : "fixed") })
    const runId = await world.trigger(text)
    expect((await world.ended(runId)).status).toBe("failed")
    broken = false
    await world.engine.retry(runId, {})
    expect((await world.ended(runId)).status).toBe("success")
    expect(world.launched.map((each) => each.task)).toEqual(["a", "b", "b", "c"])
    const task = await world.task(runId, "b")
    expect(task).toMatchObject({ attempt: 2, failures: 0 })
    expect(await world.store.listAttempts(task.row)).toMatchObject([{ attempt: 1, state: "failed" }])
  })

  it("takes a task and all below it again", async () => {
    const world = await setup()
    const runId = await world.trigger(text)
    await world.ended(runId)
    expect(await world.engine.planRetry(runId, { from: "b" })).toMatchObject({ again: ["b", "c"], kept: ["a"] })
    await world.engine.retry(runId, { from: "b" })
    expect((await world.ended(runId)).tasks.success).toBe(3)
    expect(world.launched.map((each) => each.task)).toEqual(["a", "b", "c", "b", "c"])
  })

  it("takes one instance of a fan-out and all below it again", async () => {
    const world = await setup({ t: ({ parallelIndex, attempt }) => `${parallelIndex}#${attempt}` })
    const runId = await world.trigger(
      "name: f\ntasks: { t: { command: x, parallel: 3 }, last: { command: x, depends_on: [t] } }",
    )
    await world.ended(runId)
    await world.engine.retry(runId, { instance: { task: "t", path: "1" } })
    expect((await world.ended(runId)).tasks.success).toBe(4)
    expect(world.inputs("last")).toEqual([{ t: ["0#1", "1#1", "2#1"] }, { t: ["0#1", "1#2", "2#1"] }])
  })

  it("takes only the failed instances of a fan-out again", async () => {
    let broken = true
    const world = await setup({ t: ({ parallelIndex }) => (broken && parallelIndex! > 0 ? fail() : parallelIndex) })
    const runId = await world.trigger("name: f\ntasks: { t: { command: x, parallel: 3 } }")
    expect((await world.ended(runId)).tasks).toMatchObject({ success: 1, failed: 2 })
    broken = false
    await world.engine.retry(runId, {})
    expect(await world.ended(runId)).toMatchObject({ status: "success", tasks: { success: 3, failed: 0 } })
    expect(world.launched).toHaveLength(5)
  })

  it("expands a fan-out anew when its list has changed: fewer and more items", async () => {
    let files = [1, 2, 3]
    const world = await setup({ a: () => ({ files }) })
    const runId = await world.trigger(
      "name: f\ntasks: { a: { command: x }, t: { command: x, depends_on: [a], foreach: a.files } }",
    )
    await world.ended(runId)
    for (const next of [[7], [4, 5, 6, 7]]) {
      files = next
      await world.engine.retry(runId, { from: "a" })
      expect((await world.ended(runId)).tasks.success).toBe(1 + next.length)
      const items = (await world.tasks(runId)).filter((task) => task.name === "t").map((task) => task.item)
      expect(items).toEqual(next)
    }
  })

  it("of a success without a task to start from is refused, and so is that of a running one", async () => {
    const world = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await world.trigger(text)
    await world.pass(100)
    await expect(world.engine.retry(runId, {})).rejects.toThrow("is running; cancel it or wait for its end")
  })
})

describe("hooks", () => {
  const text = `
name: hooks
on_success: [{ command: x }]
on_failure: [{ command: page, env: { WHY: "\${{ run.error }}" } }]
on_cancel: [{ command: x }]
on_exit: [{ command: x }, { command: x }]
tasks: { a: { command: x } }
`
  const hooks = (launched: { task: string }[]): string[] =>
    launched
      .map((each) => each.task)
      .filter((name) => name.startsWith("on_"))
      .toSorted()

  it("run after a success", async () => {
    const world = await setup()
    await world.ended(await world.trigger(text))
    expect(hooks(world.launched)).toEqual(["on_exit.0", "on_exit.1", "on_success.0"])
  })

  it("run after a failure, know why, and never change how the run ended", async () => {
    const world = await setup({ a: () => fail("no disk"), "on_failure.0": () => fail() })
    const runId = await world.trigger(text)
    const run = await world.ended(runId)
    expect(run).toMatchObject({ status: "failed", hooksPending: 0, tasks: { failed: 1 } })
    expect(hooks(world.launched)).toEqual(["on_exit.0", "on_exit.1", "on_failure.0"])
    const page = world.launched.find((each) => each.task === "on_failure.0")!
    expect(page.env["WHY"]).toBe(run.error)
    expect(run.error).toContain("a")
    expect((await world.task(runId, "on_failure.0")).status).toBe("failed")
  })

  it("run after a cancel", async () => {
    const world = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await world.trigger(text)
    await world.pass(10)
    await world.engine.cancel(runId)
    await world.ended(runId)
    expect(hooks(world.launched)).toEqual(["on_cancel.0", "on_exit.0", "on_exit.1"])
  })

  it("run again after a retried run", async () => {
    let broken = true
    const world = await setup({ a: () => (broken ? fail() : null) })
    const runId = await world.trigger(text)
    await world.ended(runId)
    broken = false
    world.launched.length = 0
    await world.engine.retry(runId, {})
    await world.ended(runId)
    expect(hooks(world.launched)).toEqual(["on_exit.0", "on_exit.1", "on_success.0"])
  })
})
