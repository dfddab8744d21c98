// What interrupts an activation (a store that is away, a lost fence, a shutdown) is no failure of a step: the code of the function does
// not see it.

import { describe, expect, it } from "vitest"
import { Ork } from "../ork.ts"
import { task, workflow } from "../definitions.ts"
import { StoreUnavailable } from "../../store/contract/errors.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import { openKit } from "../test.ts"
import { temporaryFolder } from "../../../test/support/ork.ts"

type Method = "loadFunctions" | "recordSteps" | "createJobs" | "getJob" | "recordInTransaction"

/** Fails the first calls of a method, before or after the store has performed them. */
const failing =
  (method: Method, { times, when }: { times: number; when: "before" | "after" }) =>
  (store: ServerStore): ServerStore => {
    let left = times
    const perform = store[method].bind(store) as (...args: unknown[]) => Promise<unknown>
    const call = async (...args: unknown[]): Promise<unknown> => {
      const fails = left-- > 0
      if (!fails || when === "after") {
        const result = await perform(...args)
        if (!fails) return result
      }
      throw new StoreUnavailable("the test", method)
    }
    return { ...store, [method]: call }
  }

describe("a durable function", () => {
  it.each<[Method, "before" | "after"]>([
    ["loadFunctions", "before"],
    ["recordSteps", "before"],
    ["recordSteps", "after"],
    ["recordInTransaction", "before"],
    ["recordInTransaction", "after"],
  ])("goes on when the store is available again (%s, %s its commit)", async (method, when) => {
    const ran: string[] = []
    const flow = workflow("flow", {}, async (_, step) => {
      const a = await step.run("a", () => ran.push("a"), { retry: { attempts: 1 } })
      const b = await step.tx("b", async (tx) => (await tx.query("SELECT 1 AS one")).rows.length, { retry: { attempts: 1 } })
      const c = await step.run("c", () => ran.push("c"), { retry: { attempts: 1 } })
      return [a, b, c]
    })
    await using ork = await openKit({ run: [flow], store: failing(method, { times: 3, when }) })
    const run = await ork.enqueue(flow, {})
    await ork.advance("10m")
    expect(await run.result()).toEqual([1, 1, 2])
    expect(ran).toEqual(["a", "c"])
  })

  it("retries a step whose own call of Ork did not reach the database", async () => {
    const other = task("other", {}, () => "done")
    const flow = workflow(
      "flow",
      {},
      async (_, step) => await step.run("enqueue", async () => (await ork.enqueue(other, null)).id),
    )
    await using ork = await openKit({ run: [flow, other], store: failing("createJobs", { times: 1, when: "before" }) })
    const run = await ork.enqueue(flow, {})
    await ork.advance("10m")
    const job = await ork.get(await run.result())
    expect(await job?.result()).toBe("done")
  })

  it.each<"run" | "tx">(["run", "tx"])(
    "compensates when no try of a step.%s of its own calls reached the database",
    async (kind) => {
      const tries: number[] = []
      const flow = workflow("flow", {}, async (_, step) => {
        try {
          return await step[kind]("call", () => {
            tries.push(tries.length + 1)
            throw new StoreUnavailable("of another program", "the connection is gone")
          })
        } catch (error) {
          return await step.run("compensate", () => (error as Error).name)
        }
      })
      await using ork = await openKit({ run: [flow] })
      const run = await ork.enqueue(flow, {})
      await ork.advance("10m")
      expect(await run.result({ timeout: 1 })).toBe("TaskFailedError")
      expect(tries).toEqual([1, 2, 3])
    },
  )

  it("that has lost its attempt does not run its catch blocks", async () => {
    const ran: string[] = []
    const flow = workflow("flow", {}, async (_, step) => {
      try {
        return await step.run("work", () => ran.push("work"))
      } catch {
        return await step.run("compensate", () => ran.push("compensate"))
      }
    })
    let isLost = true
    const store = (real: ServerStore): ServerStore => ({
      ...real,
      recordSteps: async (steps) => {
        if (!isLost) return await real.recordSteps(steps)
        isLost = false
        return steps.map(({ attemptId }) => attemptId)
      },
    })
    await using ork = await openKit({ run: [flow], store })
    const run = await ork.enqueue(flow, {})
    await ork.advance("10m")
    await run.result()
    expect(ran).toEqual(["work", "work"])
  })

  it("that has ended begins no transaction of a branch that it does not await", async () => {
    const ran: string[] = []
    const free = Promise.withResolvers<void>()
    const flow = workflow("flow", {}, async (_, step) => {
      void step.tx("pay", () => void ran.push("pay"))
      return await step.run("work", () => ran.push("work"))
    })
    const ended = Promise.withResolvers<void>()
    const store = (real: ServerStore): ServerStore => ({
      ...real,
      recordInTransaction: async (step, work) => {
        await free.promise
        return await real.recordInTransaction(step, work).finally(ended.resolve)
      },
    })
    await using ork = await openKit({ run: [flow], store })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1s")
    expect(await run.result()).toBe(1)
    free.resolve()
    await ended.promise
    expect(ran).toEqual(["work"])
  })

  it("whose process shuts down goes on elsewhere, and its code does not see the shutdown", async () => {
    const database = `sqlite:${temporaryFolder()}/ork.db`
    const began = Promise.withResolvers<void>()
    const flow = workflow("flow", {}, async (_, step) => {
      await step.run("first", async ({ signal }) => {
        began.resolve()
        if (signal.aborted) return
        await new Promise((resolve) => signal.addEventListener("abort", resolve))
      })
      try {
        return await step.run("second", () => "result of the step")
      } catch {
        return "result without the step"
      }
    })
    const free = workflow("flow", {}, async (_, step) => {
      await step.run("first", () => {})
      return await step.run("second", () => "result of the step")
    })
    const first = await Ork.open({ database, run: [flow] })
    const { id } = await first.enqueue(flow, {})
    await began.promise
    await first.stop({ grace: 0 })
    await using second = await Ork.open({ database, run: [free] })
    const run = (await second.get(id))!
    expect(await run.result({ timeout: "30s" })).toBe("result of the step")
  })
})
