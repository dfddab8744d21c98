import { describe, expect, it } from "vitest"
import { z } from "zod"
import { signal, task, workflow } from "../definitions.ts"
import { CancelledError, ConflictError } from "../errors.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import { openKit, type TestOrk, testOrk } from "../test.ts"
import type { Work } from "../orkable.ts"
import type { StepTools } from "./step-tools.ts"

const paid = signal("paid", z.object({ cents: z.int() }))

/** Replaces methods of the store of a test kit. */
const intercepted = (methods: (store: ServerStore) => Partial<ServerStore>) => {
  let bound: ServerStore | null = null
  const bind = (store: ServerStore): ServerStore => ({ ...store, ...methods((bound = store)) })
  return { bind, store: () => bound! }
}

/** Cancels the run and lets it end. Returns what it has done. */
const cancelled = async (ork: TestOrk, run: Work<unknown>): Promise<void> => {
  await run.cancel()
  await ork.advance("1m")
  expect((await run.refresh()).status).toBe("cancelled")
  await expect(run.result()).rejects.toThrow(CancelledError)
}

describe("a function that is cancelled", () => {
  it("while it is suspended, gets a CancelledError at its await and runs the steps of its finally block", async () => {
    const ran: string[] = []
    const flow = workflow("flow", {}, async (_, step) => {
      await step.run("reserve", () => void ran.push("reserve"))
      try {
        await step.waitFor(paid)
      } catch (error) {
        ran.push((error as Error).name)
        throw error
      } finally {
        await step.run("release", ({ signal: over }) => void ran.push(`release ${over.aborted}`))
      }
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1d")
    await ork.crash()
    await cancelled(ork, run)
    expect(ran).toEqual(["reserve", "CancelledError", "release false"])
  })

  it("at the moment of its suspension, runs the steps of its finally block", async () => {
    const ran: string[] = []
    const flow = workflow("flow", {}, async (_, step) => {
      try {
        await step.waitFor(paid)
      } finally {
        await step.run("release", () => void ran.push("release"))
      }
    })
    let cancelNow: (() => Promise<unknown>) | null = null
    const kit = intercepted((store) => ({
      advance: async (batch) => {
        if (batch.changes.some(({ kind }) => kind === "wait")) {
          await cancelNow?.()
          cancelNow = null
        }
        return await store.advance(batch)
      },
    }))
    await using ork = await openKit({ run: [flow], store: kit.bind })
    const run = await ork.enqueue(flow, {})
    cancelNow = () => kit.store().requestCancel(run.id as RunId, "cancel")
    await ork.advance("1m")
    expect((await run.refresh()).status).toBe("cancelled")
    expect(ran).toEqual(["release"])
  })

  it("and ends, begins no step in a branch that it does not await", async () => {
    const ran: string[] = []
    const busy = Promise.withResolvers<void>()
    const branch = async (step: StepTools): Promise<void> => {
      try {
        await step.run("busy", () => busy.promise)
      } finally {
        await step.run("clean up", () => void ran.push("clean up"))
      }
    }
    const flow = workflow("flow", {}, async (_, step) => {
      await Promise.all([branch(step), step.run("idle", () => null).then(() => step.sleep("nap", "1h"))])
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1s")
    await run.cancel()
    await ork.advance("1s")
    busy.reject(new Error("aborted"))
    await ork.advance("1s")
    expect((await run.refresh()).status).toBe("cancelled")
    expect(ran).toEqual([])
  })

  it("before it begins, begins none of its steps that run at the same time", async () => {
    const ran: string[] = []
    const loaded = Promise.withResolvers<void>()
    const branch = async (step: StepTools, name: string): Promise<void> => {
      await Promise.resolve()
      await step.run(name, () => void ran.push(name))
    }
    const flow = workflow("flow", {}, async (_, step) => {
      try {
        await Promise.all([step.run("a", () => void ran.push("a")), step.run("b", () => void ran.push("b")), branch(step, "c")])
      } finally {
        await step.run("release", () => void ran.push("release"))
      }
    })
    const kit = intercepted((store) => ({
      loadFunctions: async (rows) => {
        await loaded.promise
        return await store.loadFunctions(rows)
      },
    }))
    await using ork = await openKit({ run: [flow], store: kit.bind })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1s")
    await run.cancel()
    await ork.advance("1s")
    loaded.resolve()
    await ork.advance("1s")
    expect((await run.refresh()).status).toBe("cancelled")
    expect(ran).toEqual(["release"])
  })

  it("begins no transaction that it has to wait for", async () => {
    const ran: string[] = []
    const free = Promise.withResolvers<void>()
    const flow = workflow("flow", {}, async (_, step) => {
      await step.tx("pay", () => void ran.push("pay"))
    })
    const kit = intercepted((store) => ({
      recordInTransaction: async (step, work) => {
        await free.promise
        return await store.recordInTransaction(step, work)
      },
    }))
    await using ork = await openKit({ run: [flow], store: kit.bind })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1s")
    await run.cancel()
    await ork.advance("1s")
    free.resolve()
    await ork.advance("1s")
    expect((await run.refresh()).status).toBe("cancelled")
    expect(ran).toEqual([])
  })

  it("and is suspended before the cancel is committed, runs the steps of its finally block", async () => {
    const ran: string[] = []
    const busy = Promise.withResolvers<void>()
    const flow = workflow("flow", {}, async (_, step) => {
      await step.run("busy", () => busy.promise)
      try {
        await step.waitFor(paid)
      } finally {
        await step.run("release", () => void ran.push("release"))
      }
    })
    const suspended = Promise.withResolvers<void>()
    const kit = intercepted((store) => ({
      advance: async (batch) => {
        const advanced = await store.advance(batch)
        if (batch.changes.some(({ kind }) => kind === "wait")) suspended.resolve()
        return advanced
      },
      requestCancel: async (runId, reason, options) => {
        busy.resolve()
        await suspended.promise
        return await store.requestCancel(runId, reason, options)
      },
    }))
    await using ork = await openKit({ run: [flow], store: kit.bind })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1s")
    await run.cancel()
    await ork.advance("1m")
    expect((await run.refresh()).status).toBe("cancelled")
    expect(ran).toEqual(["release"])
  })

  it("while a step runs, aborts the step's signal, and the function's own", async () => {
    const ran: string[] = []
    const flow = workflow("flow", {}, async (_, step) => {
      try {
        await step.run("long", ({ signal: stop }) => new Promise((resolve) => stop.addEventListener("abort", resolve)))
        ran.push("not reached")
      } finally {
        ran.push(`aborted ${step.signal.aborted}`)
        await step.run("release", () => void ran.push("release"))
      }
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1s")
    await cancelled(ork, run)
    expect(ran).toEqual(["aborted true", "release"])
  })

  it("retries a step of its finally block within the grace period, and is stopped after it", async () => {
    const tries: number[] = []
    const flow = workflow("flow", {}, async (_, step) => {
      try {
        await step.sleep("long", "30d")
      } finally {
        await step.run("flaky", ({ attempt }) => {
          tries.push(attempt)
          if (attempt === 1) throw new Error("busy")
        })
        await step.sleep("a moment", "2s")
        await step.run("endless", () => new Promise(() => tries.push(0)))
      }
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1s")
    await run.cancel()
    await ork.advance("9s")
    expect(tries).toEqual([1, 2, 0])
    expect((await run.refresh()).status).toBe("running")
    await ork.advance("2s")
    expect((await run.refresh()).status).toBe("cancelled")
  })

  it("rejects every step that it awaits, and no promise that it has forgotten", async () => {
    const ends: string[] = []
    const flow = workflow("flow", {}, async (_, step) => {
      void step.sleep("forgotten", "30d")
      const results = await Promise.allSettled([step.sleep("long", "30d"), step.waitFor(paid), step.approval("go")])
      ends.push(...results.map(({ status }) => status))
      await step.waitFor(paid).catch((error: Error) => ends.push(error.message))
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1s")
    await cancelled(ork, run)
    expect(ends).toEqual([
      "rejected",
      "rejected",
      "rejected",
      "the function was cancelled, and no longer waits: waits for paid",
    ])
  })

  it("cancels the jobs and functions that it has called", async () => {
    const ended: string[] = []
    const job = task("job", {}, async (_, { signal: stop }) => {
      await new Promise((resolve) => stop.addEventListener("abort", resolve))
      ended.push("job")
    })
    const child = workflow("child", {}, async (_, step) => {
      try {
        await step.sleep("long", "30d")
      } finally {
        await step.run("clean up", () => void ended.push("child"))
      }
    })
    const parent = workflow("parent", {}, async (_, step) => {
      await Promise.all([step.call(job, null), step.call(child, {})])
    })
    await using ork = await testOrk({ run: [parent, child, job] })
    const run = await ork.enqueue(parent, {})
    await ork.advance("1m")
    await cancelled(ork, run)
    expect(ended.toSorted()).toEqual(["child", "job"])
    for await (const each of ork.list({ def: child })) expect(each.status).toBe("cancelled")
    for await (const each of ork.list({ def: job })) expect(each).toMatchObject({ status: "failed", error: "cancelled" })
  })

  it("can be retried: it goes on where it was", async () => {
    const flow = workflow("flow", {}, async (_, step) => {
      await step.sleep("long", "1h")
      return "done"
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    await cancelled(ork, run)
    await expect(run.cancel()).rejects.toThrow(ConflictError)
    await run.retry()
    await ork.advance("1h")
    expect(await run.result()).toBe("done")
  })

  it("says what went wrong when its finally block fails", async () => {
    const flow = workflow("flow", {}, async (_, step) => {
      try {
        await step.sleep("long", "1h")
      } finally {
        await step.run(
          "release",
          () => {
            throw new Error("no such order")
          },
          { retry: { attempts: 1 } },
        )
      }
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    await cancelled(ork, run)
    expect(await ork.tasks(run)).toMatchObject([
      { status: "cancelled", error: `cancelled; then step release of ${run.id} failed: no such order` },
    ])
  })
})
