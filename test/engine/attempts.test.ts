import { describe, expect, it } from "vitest"
import { fail, setup } from "./setup.ts"
import type { RunId } from "../../src/core/model/ids.ts"
import { removeRun, removeUnusedCachedOutputs } from "../../src/engine/services/retention.ts"

describe("retries", () => {
  it("run the task again after the back-off, keep every attempt, and stop at the first success", async () => {
    const fixture = await setup({ a: ({ attempt }) => (attempt < 3 ? fail(`try ${attempt}`) : "ok") })
    const runId = await fixture.trigger("name: r\ntasks: { a: { command: x, retry: { max_attempts: 5, base_delay: 10s } } }")
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(fixture.clock.elapsed).toBeGreaterThanOrEqual(30_000)
    expect(fixture.clock.elapsed).toBeLessThan(31_000)
    const task = await fixture.task(runId, "a")
    expect(task).toMatchObject({ attempt: 3, failures: 2, status: "success" })
    expect(await fixture.store.listAttempts(task.row)).toMatchObject([
      { attempt: 1, state: "failed", error: "try 1" },
      { attempt: 2, state: "failed", error: "try 2" },
    ])
  })

  it("show the task as pending until its retry, with the time of the retry", async () => {
    const fixture = await setup({ a: () => fail() })
    const runId = await fixture.trigger("name: r\ntasks: { a: { command: x, retries: 1, retry: { base_delay: 1m } } }")
    await fixture.pass(1000)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "pending", availableAt: "2026-01-01T00:01:00.000Z" })
    expect((await fixture.ended(runId)).status).toBe("failed")
  })

  it("stop an attempt at its timeout and count it as failed", async () => {
    const fixture = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await fixture.trigger(
      "name: t\ntasks: { a: { command: x, timeout: 10m, retries: 1, retry: { base_delay: 1s } } }",
    )
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect(await fixture.task(runId, "a")).toMatchObject({
      attempt: 2,
      lastAttemptState: "timeout",
      error: "timed out after 10m",
    })
  })

  it.each([
    ["forward", 60],
    ["back", -60],
  ])("keep the timeout of a running attempt when the time of day is set %s", async (_, minutes) => {
    const fixture = await setup({ a: (_task, { untilStopped }) => untilStopped() })
    const runId = await fixture.trigger("name: t\ntasks: { a: { command: x, timeout: 10m } }")
    await fixture.pass(60_000)
    fixture.clock.stepTimeOfDay(minutes * 60_000)
    await fixture.pass(8 * 60_000)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "running" })
    await fixture.pass(2 * 60_000)
    expect(await fixture.task(runId, "a")).toMatchObject({ lastAttemptState: "timeout", error: "timed out after 10m" })
  })

  it("accept reported times and delays that are out of range, and clamp them", async () => {
    const fixture = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await fixture.trigger("name: r\ntasks: { a: { command: x, retries: 1 } }")
    await fixture.pass(1000)
    const { row, attemptId } = await fixture.task(runId, "a")
    const result = { state: "failed", startedAt: 1, finishedAt: 1e303, exitCode: 2 ** 40 } as const
    const change = { row, attemptId: attemptId!, kind: "retry", delayMs: 1e303, lost: false, result } as const
    expect(await fixture.until(fixture.engine.report([change]))).toEqual([])
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "pending", exitCode: null })
  })

  it("end with the timeout of the run, which fails it and cancels its tasks", async () => {
    const fixture = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await fixture.trigger(
      "name: t\ntimeout: 5m\ntasks: { a: { command: x, retries: 3 }, b: { command: x, depends_on: [a] } }",
    )
    const run = await fixture.ended(runId)
    expect(run).toMatchObject({ status: "failed", error: expect.stringContaining("timed out after 5m") })
    expect(await fixture.statuses(runId)).toEqual({ a: "cancelled", b: "cancelled" })
    expect((await fixture.task(runId, "a")).error).toBe("stopped, because the run timed out")
  })
})

describe("cancel", () => {
  const text = "name: c\ntasks: { a: { command: x, retries: 5 }, b: { command: x, depends_on: [a] }, quick: { command: x } }"

  it("cancels pending tasks at once, running ones when they have stopped, and then the run", async () => {
    let die: () => void = () => {}
    const fixture = await setup({
      a: async (_, { signal, untilStopped }) => {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => (die = resolve)))
        return await untilStopped()
      },
    })
    const runId = await fixture.trigger(text)
    await fixture.pass(1000)
    await fixture.engine.cancel(runId)
    await fixture.pass(1000)
    expect(await fixture.statuses(runId)).toEqual({ a: "running", b: "cancelled", quick: "success" })
    die()
    expect((await fixture.ended(runId)).status).toBe("cancelled")
    expect(await fixture.statuses(runId)).toEqual({ a: "cancelled", b: "cancelled", quick: "success" })
  })

  it("keeps the success of a task that ignores the stop", async () => {
    const fixture = await setup({
      a: async (_, { signal }) => {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()))
        return "made it"
      },
    })
    const runId = await fixture.trigger(text)
    await fixture.pass(1000)
    await fixture.engine.cancel(runId)
    expect((await fixture.ended(runId)).status).toBe("cancelled")
    expect(await fixture.statuses(runId)).toMatchObject({ a: "success", b: "cancelled" })
  })

  it("is rejected for a run that has finished", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(text)
    await fixture.ended(runId)
    await expect(fixture.engine.cancel(runId)).rejects.toThrow("has already ended as success")
  })

  it("cancels a fan-out with thousands of pending instances", async () => {
    const fixture = await setup({ t: (_, { untilStopped }) => untilStopped() }, { concurrency: 8 })
    const runId = await fixture.trigger(
      "name: c\ntasks: { t: { command: x, parallel: 3000 }, b: { command: x, depends_on: [t] } }",
    )
    await fixture.pass(1000)
    await fixture.engine.cancel(runId)
    expect(await fixture.ended(runId)).toMatchObject({
      status: "cancelled",
      tasks: { cancelled: 3001, pending: 0, running: 0 },
    })
  })
})

describe("pause", () => {
  it("keeps tasks from starting until the run is resumed", async () => {
    const fixture = await setup({
      a: async (_, { sleep }) => {
        await sleep(1000)
        return null
      },
    })
    const runId = await fixture.trigger("name: p\ntasks: { a: { command: x }, b: { command: x, depends_on: [a] } }")
    await fixture.pass(10)
    await fixture.engine.setPaused(runId, true)
    await fixture.pass(60_000)
    expect(await fixture.statuses(runId)).toEqual({ a: "success", b: "pending" })
    expect(await fixture.task(runId, "b")).toMatchObject({ parked: "paused" })
    await fixture.engine.setPaused(runId, false)
    expect((await fixture.ended(runId)).status).toBe("success")
  })
})

describe("cache", () => {
  const text = `
name: cached
params: { day: monday }
tasks:
  a: { command: x, cache: { key: params.day, ttl: 1h } }
  b: { command: x, depends_on: [a] }
`
  it("reuses the output of a success under the same key until its ttl has passed", async () => {
    let made = 0
    const fixture = await setup({ a: () => ({ made: ++made }) })
    const inputOfB = async (day: string): Promise<unknown> => {
      await fixture.ended(await fixture.trigger(text, { day }))
      return fixture.inputs("b").at(-1)
    }
    expect(await inputOfB("monday")).toEqual({ a: { made: 1 } })
    expect(await inputOfB("monday")).toEqual({ a: { made: 1 } })
    expect(await inputOfB("tuesday")).toEqual({ a: { made: 2 } })
    await fixture.pass(3_600_001)
    expect(await inputOfB("monday")).toEqual({ a: { made: 3 } })
  })

  const setupLarge = async () => {
    let made = 0
    const fixture = await setup({ a: () => [++made, "x".repeat(70_000)] })
    const stores = { store: fixture.store, objects: fixture.objects, dataDir: fixture.folder }
    const run = async (): Promise<{ runId: RunId; made: number }> => {
      const runId = await fixture.trigger(text, { day: "monday" })
      expect((await fixture.ended(runId)).status).toBe("success")
      const { a } = fixture.inputs("b").at(-1) as { a: [number, string] }
      return { runId, made: a[0] }
    }
    return { fixture, stores, run }
  }

  it("keeps a large output when the run that produced it is removed, and for each run that reuses it", async () => {
    const { fixture, stores, run } = await setupLarge()
    const first = await run()
    await removeRun(stores, first.runId)
    const second = await run()
    expect(second.made).toBe(1)
    await fixture.pass(3_600_001)
    expect(await removeUnusedCachedOutputs(stores), "the entry has expired").toBe(1)
    await fixture.until(fixture.engine.retry(second.runId, { from: "b" }))
    expect((await fixture.ended(second.runId)).status).toBe("success")
    expect((await run()).made).toBe(2)
  })

  it("runs the task again when its cached output is gone from the object store", async () => {
    const { fixture, run } = await setupLarge()
    await run()
    await fixture.objects.deletePrefix("cache/")
    expect((await run()).made).toBe(2)
  })

  it("removes copies that a later success has replaced, and no others", async () => {
    const { fixture, stores, run } = await setupLarge()
    await run()
    await fixture.pass(3_600_001)
    await run()
    expect(await fixture.objects.list("cache/")).toHaveLength(2)
    expect(await removeUnusedCachedOutputs(stores)).toBe(1)
    expect((await run()).made).toBe(2)
  })
})

describe("progress", () => {
  it("is emitted at most once a second, with the latest value", async () => {
    const fixture = await setup({
      a: async (_, { progress, sleep }) => {
        for (let i = 1; i <= 50; i++) {
          progress({ fraction: i / 100, details: { i } })
          await sleep(100)
        }
        return null
      },
    })
    const runId = await fixture.trigger("name: far\ntasks: { a: { command: x } }")
    await fixture.pass(3050)
    expect((await fixture.task(runId, "a")).progress).toEqual({ fraction: 0.3, details: { i: 30 } })
    await fixture.ended(runId)
    const emitted = fixture.events.filter(({ progress }) => progress !== undefined)
    expect(emitted.length).toBeGreaterThanOrEqual(4)
    expect(emitted.length).toBeLessThanOrEqual(6)
    expect(emitted[0]).toMatchObject({ task: "a", status: "running", progress: { fraction: 0.01, details: { i: 1 } } })
  })
})

describe("a value at the beginning of an argument", () => {
  const runWith = async (task: string, x: string) => {
    const fixture = await setup()
    const runId = await fixture.trigger(`name: w\nparams: { x: { type: string, required: true } }\ntasks: { a: ${task} }`, {
      x,
    })
    await fixture.ended(runId)
    return await fixture.task(runId, "a")
  }

  it.each([
    '{ command: "ls ${{ params.x }}", retries: 3 }',
    '{ command: "ls \\"${{ params.x }}\\"" }',
    '{ command: "ls ${{ params.x }}.txt" }',
    '{ command: [ls, "${{ params.x }}"] }',
    '{ command: [ls, "${{ params.x }}.txt", --] }',
  ])("that is an option fails the attempt: %s", async (task) => {
    const { status, error, attempt } = await runWith(task, "--use-compress-program=touch x")
    expect({ status, attempt }).toEqual({ status: "failed", attempt: 1 })
    expect(error).toContain("which a program may read as an option; write -- before it, or set allow_option_values: true")
  })

  it.each([
    ['{ command: "ls -- ${{ params.x }}" }', "-l"],
    ['{ command: "ls --day=${{ params.x }}" }', "-l"],
    ['{ command: "ls ${{ params.x }}", allow_option_values: true }', "-l"],
    ['{ command: [ls, --, "${{ params.x }}"] }', "-l"],
    ['{ command: [ls, "${{ params.x }}"], allow_option_values: true }', "-l"],
    ['{ command: "ls ${{ params.x }}" }', "plain"],
    ['{ command: "ls ${{ int(params.x) }}" }', "-5"],
  ])("is accepted after --, inside of an argument, for a task that allows it, and as a number: %s", async (task, x) => {
    expect(await runWith(task, x)).toMatchObject({ status: "success" })
  })
})
