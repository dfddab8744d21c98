import { describe, expect, it } from "vitest"
import { fail, setup } from "./world.ts"

describe("retries", () => {
  it("try again after the back-off, keep every attempt, and end with the first success", async () => {
    const world = await setup({ a: ({ attempt }) => (attempt < 3 ? fail(`try ${attempt}`) : "ok") })
    const runId = await world.trigger("name: r\ntasks: { a: { command: x, retry: { max_attempts: 5, base_delay: 10s } } }")
    expect((await world.ended(runId)).status).toBe("success")
    expect(world.clock.elapsed).toBeGreaterThanOrEqual(30_000)
    expect(world.clock.elapsed).toBeLessThan(31_000)
    const task = await world.task(runId, "a")
    expect(task).toMatchObject({ attempt: 3, failures: 2, status: "success" })
    expect(await world.store.listAttempts(task.row)).toMatchObject([
      { attempt: 1, state: "failed", error: "try 1" },
      { attempt: 2, state: "failed", error: "try 2" },
    ])
  })

  it("show a task that waits for its retry as pending, with the time", async () => {
    const world = await setup({ a: () => fail() })
    const runId = await world.trigger("name: r\ntasks: { a: { command: x, retries: 1, retry: { base_delay: 1m } } }")
    await world.pass(1000)
    expect(await world.task(runId, "a")).toMatchObject({ status: "pending", availableAt: "2026-01-01T00:01:00.000Z" })
    expect((await world.ended(runId)).status).toBe("failed")
  })

  it("stop a task that runs too long and count it as a failed attempt", async () => {
    const world = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await world.trigger(
      "name: t\ntasks: { a: { command: x, timeout: 10m, retries: 1, retry: { base_delay: 1s } } }",
    )
    expect((await world.ended(runId)).status).toBe("failed")
    expect(await world.task(runId, "a")).toMatchObject({ attempt: 2, outcome: "timeout", error: "timed out after 10m" })
  })

  it("asked for after a time that no clock knows hold up nobody else", async () => {
    const world = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await world.trigger("name: r\ntasks: { a: { command: x, retries: 1 } }")
    await world.pass(1000)
    const { row, attemptId } = await world.task(runId, "a")
    const result = { state: "failed", startedAt: 1, finishedAt: 1e303, exitCode: 2 ** 40 } as const
    const change = { row, attemptId: attemptId!, kind: "retry", delayMs: 1e303, lost: false, result } as const
    expect(await world.until(world.engine.report([change]))).toEqual([])
    expect(await world.task(runId, "a")).toMatchObject({ status: "pending", exitCode: null })
  })

  it("fail a run that runs too long, and cancel its tasks", async () => {
    const world = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await world.trigger(
      "name: t\ntimeout: 5m\ntasks: { a: { command: x, retries: 3 }, b: { command: x, depends_on: [a] } }",
    )
    const run = await world.ended(runId)
    expect(run).toMatchObject({ status: "failed", error: expect.stringContaining("timed out after 5m") })
    expect(await world.statuses(runId)).toEqual({ a: "cancelled", b: "cancelled" })
  })
})

describe("cancel", () => {
  const text = "name: c\ntasks: { a: { command: x, retries: 5 }, b: { command: x, depends_on: [a] }, quick: { command: x } }"

  it("ends pending tasks at once, live ones when they are dead, then the run", async () => {
    let die: () => void = () => {}
    const world = await setup({
      a: async (_, { signal, untilStopped }) => {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => (die = resolve)))
        return await untilStopped()
      },
    })
    const runId = await world.trigger(text)
    await world.pass(1000)
    await world.engine.cancel(runId)
    await world.pass(1000)
    expect(await world.statuses(runId)).toEqual({ a: "running", b: "cancelled", quick: "success" })
    die()
    expect((await world.ended(runId)).status).toBe("cancelled")
    expect(await world.statuses(runId)).toEqual({ a: "cancelled", b: "cancelled", quick: "success" })
  })

  it("keeps a success that came first", async () => {
    const world = await setup({
      a: async (_, { signal }) => {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()))
        return "made it"
      },
    })
    const runId = await world.trigger(text)
    await world.pass(1000)
    await world.engine.cancel(runId)
    expect((await world.ended(runId)).status).toBe("cancelled")
    expect(await world.statuses(runId)).toMatchObject({ a: "success", b: "cancelled" })
  })

  it("of a run that has ended is refused", async () => {
    const world = await setup()
    const runId = await world.trigger(text)
    await world.ended(runId)
    await expect(world.engine.cancel(runId)).rejects.toThrow("has already ended as success")
  })

  it("ends a fan-out with thousands of instances waiting", async () => {
    const world = await setup({ t: (_, { untilStopped }) => untilStopped() }, { concurrency: 8 })
    const runId = await world.trigger(
      "name: c\ntasks: { t: { command: x, parallel: 3000 }, b: { command: x, depends_on: [t] } }",
    )
    await world.pass(1000)
    await world.engine.cancel(runId)
    expect(await world.ended(runId)).toMatchObject({ status: "cancelled", tasks: { cancelled: 3001, pending: 0, running: 0 } })
  })
})

describe("pause", () => {
  it("holds back what has not started, and resume lets it go", async () => {
    const world = await setup({
      a: async (_, { sleep }) => {
        await sleep(1000)
        return null
      },
    })
    const runId = await world.trigger("name: p\ntasks: { a: { command: x }, b: { command: x, depends_on: [a] } }")
    await world.pass(10)
    await world.engine.pause(runId, true)
    await world.pass(60_000)
    expect(await world.statuses(runId)).toEqual({ a: "success", b: "pending" })
    expect(await world.task(runId, "b")).toMatchObject({ parked: "paused" })
    await world.engine.pause(runId, false)
    expect((await world.ended(runId)).status).toBe("success")
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
  it("reuses a success under the same key with its output, until it is too old", async () => {
    let made = 0
    const world = await setup({ a: () => ({ made: ++made }) })
    const inputOfB = async (day: string): Promise<unknown> => {
      await world.ended(await world.trigger(text, { day }))
      return world.inputs("b").at(-1)
    }
    expect(await inputOfB("monday")).toEqual({ a: { made: 1 } })
    expect(await inputOfB("monday")).toEqual({ a: { made: 1 } })
    expect(await inputOfB("tuesday")).toEqual({ a: { made: 2 } })
    await world.pass(3_600_001)
    expect(await inputOfB("monday")).toEqual({ a: { made: 3 } })
  })
})

describe("progress", () => {
  it("is told at most once a second, the latest of it", async () => {
    const world = await setup({
      a: async (_, { progress, sleep }) => {
        for (let i = 1; i <= 50; i++) {
          progress({ fraction: i / 100, details: { i } })
          await sleep(100)
        }
        return null
      },
    })
    const runId = await world.trigger("name: far\ntasks: { a: { command: x } }")
    await world.pass(3050)
    expect((await world.task(runId, "a")).progress).toEqual({ fraction: 0.3, details: { i: 30 } })
    await world.ended(runId)
    const told = world.events.filter(({ progress }) => progress !== undefined)
    expect(told.length).toBeGreaterThanOrEqual(4)
    expect(told.length).toBeLessThanOrEqual(6)
    expect(told[0]).toMatchObject({ task: "a", status: "running", progress: { fraction: 0.01, details: { i: 1 } } })
  })
})
