import { describe, expect, it } from "vitest"
import type { AdvanceResult } from "../../src/store/contract/store.ts"
import { fail, setup } from "./setup.ts"

describe("retry of a run", () => {
  const text = `
name: again
tasks:
  a: { command: x }
  b: { command: x, depends_on: [a] }
  c: { command: x, depends_on: [b] }
`
  it("resets failed and skipped tasks and keeps successes", async () => {
    let broken = true
    const fixture = await setup({ b: () => (broken ? fail() : "fixed") })
    const runId = await fixture.trigger(text)
    expect((await fixture.ended(runId)).status).toBe("failed")
    broken = false
    await fixture.engine.retry(runId, {})
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(fixture.launched.map((each) => each.task)).toEqual(["a", "b", "b", "c"])
    const task = await fixture.task(runId, "b")
    expect(task).toMatchObject({ attempt: 2, failures: 0 })
    expect(await fixture.store.listAttempts(task.row)).toMatchObject([{ attempt: 1, state: "failed" }])
  })

  it("resets a task and all tasks downstream of it", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(text)
    await fixture.ended(runId)
    expect(await fixture.engine.planRetry(runId, { from: "b" })).toMatchObject({ again: ["b", "c"], kept: ["a"] })
    await fixture.engine.retry(runId, { from: "b" })
    expect((await fixture.ended(runId)).tasks.success).toBe(3)
    expect(fixture.launched.map((each) => each.task)).toEqual(["a", "b", "c", "b", "c"])
  })

  it("resets one instance of a fan-out and all tasks downstream of it", async () => {
    const fixture = await setup({ t: ({ parallelIndex, attempt }) => `${parallelIndex}#${attempt}` })
    const runId = await fixture.trigger(
      "name: f\ntasks: { t: { command: x, parallel: 3 }, last: { command: x, depends_on: [t] } }",
    )
    await fixture.ended(runId)
    await fixture.engine.retry(runId, { instance: { task: "t", path: "1" } })
    expect((await fixture.ended(runId)).tasks.success).toBe(4)
    expect(fixture.inputs("last")).toEqual([{ t: ["0#1", "1#1", "2#1"] }, { t: ["0#1", "1#2", "2#1"] }])
  })

  it("resets only the failed instances of a fan-out", async () => {
    let broken = true
    const fixture = await setup({ t: ({ parallelIndex }) => (broken && parallelIndex! > 0 ? fail() : parallelIndex) })
    const runId = await fixture.trigger("name: f\ntasks: { t: { command: x, parallel: 3 } }")
    expect((await fixture.ended(runId)).tasks).toMatchObject({ success: 1, failed: 2 })
    broken = false
    await fixture.engine.retry(runId, {})
    expect(await fixture.ended(runId)).toMatchObject({ status: "success", tasks: { success: 3, failed: 0 } })
    expect(fixture.launched).toHaveLength(5)
  })

  it("expands a fan-out again when its list has changed: fewer and more items", async () => {
    let files = [1, 2, 3]
    const fixture = await setup({ a: () => ({ files }) })
    const runId = await fixture.trigger(
      "name: f\ntasks: { a: { command: x }, t: { command: x, depends_on: [a], foreach: a.files } }",
    )
    await fixture.ended(runId)
    for (const next of [[7], [4, 5, 6, 7]]) {
      files = next
      await fixture.engine.retry(runId, { from: "a" })
      expect((await fixture.ended(runId)).tasks.success).toBe(1 + next.length)
      const items = (await fixture.tasks(runId)).filter((task) => task.name === "t").map((task) => task.item)
      expect(items).toEqual(next)
    }
  })

  it("is rejected for a running run", async () => {
    const fixture = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await fixture.trigger(text)
    await fixture.pass(100)
    await expect(fixture.engine.retry(runId, {})).rejects.toThrow("is running; cancel it or wait for its end")
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
    const fixture = await setup()
    await fixture.ended(await fixture.trigger(text))
    expect(hooks(fixture.launched)).toEqual(["on_exit.0", "on_exit.1", "on_success.0"])
  })

  it("run after a failure, can read its error, and do not change the status of the run", async () => {
    const fixture = await setup({ a: () => fail("no disk"), "on_failure.0": () => fail() })
    const runId = await fixture.trigger(text)
    const run = await fixture.ended(runId)
    expect(run).toMatchObject({ status: "failed", hooksPending: 0, tasks: { failed: 1 } })
    expect(hooks(fixture.launched)).toEqual(["on_exit.0", "on_exit.1", "on_failure.0"])
    const page = fixture.launched.find((each) => each.task === "on_failure.0")!
    expect(page.env["WHY"]).toBe(run.error)
    expect(run.error).toContain("a")
    expect((await fixture.task(runId, "on_failure.0")).status).toBe("failed")
  })

  it("run after a cancel", async () => {
    const fixture = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await fixture.trigger(text)
    await fixture.pass(10)
    await fixture.engine.cancel(runId)
    await fixture.ended(runId)
    expect(hooks(fixture.launched)).toEqual(["on_cancel.0", "on_exit.0", "on_exit.1"])
  })

  it("are not stopped by a late reply that reports the cancel of their run", async () => {
    const fixture = await setup({
      a: (_, { untilStopped }) => untilStopped(),
      "on_cancel.0": async (_, { sleep }) => (await sleep(1000), "done"),
    })
    const { store } = fixture
    const advance = store.advance
    let late: AdvanceResult["cancelling"] = []
    store.advance = async (batch) => {
      const advanced = await advance(batch)
      if (advanced.cancelling.length > 0) late = advanced.cancelling
      return { ...advanced, cancelling: late }
    }
    const runId = await fixture.trigger(text)
    await fixture.pass(10)
    await fixture.engine.cancel(runId)
    await fixture.ended(runId)
    expect(await fixture.task(runId, "on_cancel.0")).toMatchObject({ status: "success", output: { inline: "done" } })
  })

  it("run again after a retried run", async () => {
    let broken = true
    const fixture = await setup({ a: () => (broken ? fail() : null) })
    const runId = await fixture.trigger(text)
    await fixture.ended(runId)
    broken = false
    fixture.launched.length = 0
    await fixture.engine.retry(runId, {})
    await fixture.ended(runId)
    expect(hooks(fixture.launched)).toEqual(["on_exit.0", "on_exit.1", "on_success.0"])
  })
})

describe("run.date", () => {
  it("of a run without a schedule is the day in the time zone of the workflow's schedule", async () => {
    const fixture = await setup()
    const zone = "schedule: { cron: 0 2 * * *, timezone: America/New_York }"
    const task = "tasks: { a: { command: x, input: { day: '${{ run.date }}' } } }"
    for (const schedule of [zone, ""]) await fixture.ended(await fixture.trigger(`name: d\n${schedule}\n${task}`))
    expect(fixture.inputs("a")).toEqual([{ day: "2025-12-31" }, { day: "2026-01-01" }])
  })
})

describe("a hook of a task", () => {
  const TEXT = `
name: w
tasks:
  load: { command: x, on_failure: [{ command: "page \${{ tasks.load.status }}" }, { command: y }] }
  after: { command: x, depends_on: [load], run_when: all_done }`

  it("runs after the failure of its task, and does not change the status of the run or of other tasks", async () => {
    const fixture = await setup({ load: () => fail("no disk"), "load-on_failure-1": () => fail() })
    const runId = await fixture.trigger(TEXT)
    expect((await fixture.ended(runId)).error).toContain("load")
    expect(await fixture.statuses(runId)).toEqual({
      load: "failed",
      "load-on_failure-0": "success",
      "load-on_failure-1": "failed",
      after: "success",
    })
    const [hook] = fixture.launched.filter(({ task }) => task === "load-on_failure-0")
    expect(hook!.env).toMatchObject({ ORK_VALUE_0: "failed" })
  })

  it("is skipped after the success of its task", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(TEXT)
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(await fixture.statuses(runId)).toMatchObject({ load: "success", "load-on_failure-0": "skipped", after: "success" })
  })

  it("runs once after a fan-out, and inside a group", async () => {
    const fixture = await setup({ each: () => fail(), "g.a": () => fail() })
    const runId = await fixture.trigger(`
name: w
tasks:
  each: { command: x, parallel: 3, on_failure: [{ command: x }] }
  g: { tasks: { a: { command: x, on_failure: [{ command: x }] } } }`)
    await fixture.ended(runId)
    expect(await fixture.statuses(runId)).toMatchObject({ "each-on_failure-0": "success", "g.a-on_failure-0": "success" })
  })
})
