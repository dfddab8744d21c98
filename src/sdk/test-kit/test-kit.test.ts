import { describe, expect, it } from "vitest"
import { task, workflow } from "../definitions.ts"
import { graph } from "../graph/graph.ts"
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

  it("replaces a function with a version", async () => {
    const pinned = task("pinned", { version: "2" }, () => "real")
    await using ork = await testOrk({ run: [pinned] })
    for (const name of [pinned, "pinned"]) {
      ork.mock(name, () => "mocked")
      const job = await ork.enqueue(pinned, {})
      await ork.advance("1s")
      expect(await job.result()).toBe("mocked")
    }
  })

  it("rejects a mock of what it does not run", async () => {
    const region = graph("regions", {}, (g) => {
      g.group("region", (inner) => inner.define("load", { command: "x" }))
      g.define("release", { executor: "approval" })
      g.task("shake", flaky, {})
    })
    await using ork = await testOrk({ run: [region, child] })
    for (const name of ["child", "flaky", "region.load", "shake"]) ork.mock(name, () => null)
    const mocking = (given: unknown) => () => ork.mock(given as string, () => null)
    expect(mocking("chld")).toThrow('mock: neither run of testOrk nor a graph in it has "chld"; did you mean child?')
    expect(mocking("load")).toThrow('has "load"; what can be replaced is child, flaky, region.load, shake')
    expect(mocking(parent)).toThrow('mock: neither run of testOrk nor a graph in it has "parent"')
    expect(mocking(region)).toThrow("mock: regions runs nothing that a mock could replace")
    for (const name of ["region", "release"])
      expect(mocking(name)).toThrow(`mock: ${name} runs nothing that a mock could replace`)
    for (const given of [undefined, () => null, { name: "child" }]) expect(mocking(given)).toThrow("mock takes a definition")
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
