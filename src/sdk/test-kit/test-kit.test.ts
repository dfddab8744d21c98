import { describe, expect, it } from "vitest"
import { task, workflow } from "../definitions.ts"
import { testOrk } from "../test.ts"

const flaky = task("flaky", { retry: { attempts: 61, delay: "1m", maxDelay: "1m", backoff: "fixed" } }, () => {
  throw new Error("no")
})

const child = workflow("child", {}, async (_, step) => {
  await step.sleep("long", "10d")
  return "slept"
})
const parent = workflow("parent", {}, async (_, step) => await step.call(child, {}))

describe("testOrk", () => {
  it("plays an hour of retries in less than 50 ms", async () => {
    const used: number[] = []
    for (let i = 0; i < 20; i++) {
      await using ork = await testOrk({ run: [flaky] })
      const job = await ork.enqueue(flaky, {})
      const before = process.threadCpuUsage()
      await ork.advance("1h")
      const { user, system } = process.threadCpuUsage(before)
      used.push((user + system) / 1000)
      expect(await job.refresh()).toMatchObject({ status: "failed", attempts: 61 })
    }
    // The time of the processor, which other work on this machine does not change.
    expect(Math.min(...used)).toBeLessThan(50)
  })

  it("plays a year within seconds while a result is awaited, and says that the work was cancelled", async () => {
    const yearly = workflow("yearly", {}, async (_, step) => {
      await step.sleep("long", "364d")
      return "slept"
    })
    await using ork = await testOrk({ run: [yearly, flaky] })
    const result = (await ork.enqueue(yearly, {})).result()
    const job = await ork.enqueue(flaky, {}, { delay: "400d" })
    const cancelled = expect(job.result()).rejects.toThrow("was cancelled")
    await ork.advance("365d")
    expect(await result).toBe("slept")
    await job.cancel()
    await cancelled
  })

  it("passes on a result that is awaited over crashes", async () => {
    await using ork = await testOrk({ run: [parent, child] })
    const run = await ork.enqueue(parent, {})
    const result = run.result()
    await ork.advance("1d")
    await ork.crash()
    await ork.crash()
    await ork.advance("10d")
    expect(await result).toBe("slept")
    await ork.stop()
    await expect(ork.crash()).rejects.toThrow("this testOrk was stopped")
  })

  it("replaces durable functions by definition, and tasks by name", async () => {
    await using ork = await testOrk({ run: [parent, child, flaky] })
    const children = ork.mock(child, () => "mocked")
    const tasks = ork.mock("flaky", () => "fine")
    const run = await ork.enqueue(parent, {})
    const job = await ork.enqueue(flaky, { n: 1 })
    await ork.advance("1s")
    expect([await run.result(), await job.result()]).toEqual(["mocked", "fine"])
    expect([children.calls, tasks.calls]).toEqual([[{}], [{ n: 1 }]])
  })

  it("lets time pass in a mock, which a timeout interrupts", async () => {
    const slow = task("slow", { timeout: "5m", retry: { attempts: 2, delay: "1m" } }, () => "real")
    await using ork = await testOrk({ run: [slow] })
    ork.mock(slow, async (_, { attempt, sleep }) => {
      await sleep(attempt === 1 ? "10m" : "1m")
      return `attempt ${attempt} at ${ork.now().toISOString()}`
    })
    const job = await ork.enqueue(slow, {})
    await ork.advance("1h")
    expect(await job.result()).toBe("attempt 2 at 2026-01-01T00:07:00.000Z")
  })
})
