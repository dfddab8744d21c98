import { describe, expect, it } from "vitest"
import { z } from "zod"
import { signal, task, workflow } from "../definitions.ts"
import { CancelledError, InvalidInputError, TaskFailedError } from "../errors.ts"
import { graph } from "../graph/graph.ts"
import { testOrk } from "../test.ts"
import type { StepTools } from "./step-tools.ts"

const Order = z.object({ id: z.string() })
const paid = signal("paid", z.object({ cents: z.int() }))

describe("a durable function", () => {
  it("runs each step once, and returns the result", async () => {
    const ran: string[] = []
    const flow = workflow("flow", { input: Order }, async ({ id }, step) => {
      const a = await step.run("a", () => {
        ran.push("a")
        return { id }
      })
      const b = await step.run("b", () => ran.push("b"))
      return { a, b }
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, { id: "o1" })
    await ork.advance("1s")
    expect(await run.result()).toEqual({ a: { id: "o1" }, b: 2 })
    expect(ran).toEqual(["a", "b"])
  })

  it("sleeps without a slot, and continues after a crash with the results of its steps", async () => {
    const ran: string[] = []
    const flow = workflow("flow", { input: Order }, async (_, step) => {
      await step.run("before", () => void ran.push("before"))
      await step.sleep("a while", "14d")
      await step.run("after", () => void ran.push("after"))
      return step.now().toISOString()
    })
    await using ork = await testOrk({ run: [flow], now: "2026-01-01" })
    const run = await ork.enqueue(flow, { id: "o1" })
    await ork.advance("7d")
    expect((await run.refresh()).status).toBe("running")
    await ork.crash()
    await ork.advance("6d")
    expect(ran).toEqual(["before"])
    await ork.advance("1d")
    expect(await (await run.refresh()).result()).toBe("2026-01-15T00:00:00.000Z")
    expect(ran).toEqual(["before", "after"])
  })

  it("waits for a signal, gets one that came before its wait, and continues without one at the timeout", async () => {
    const flow = workflow("flow", { input: Order }, async (_, step) => {
      const first = await step.waitFor(paid, { timeout: "3d" })
      await step.sleep("between", "1h")
      const second = await step.waitFor(paid)
      const third = await step.waitFor(paid, { timeout: "1d" })
      return { first, second, third }
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, { id: "o1" })
    await ork.advance("1d")
    expect(await ork.signal(run, paid, { cents: 1 }, { key: "p1" })).toBe(true)
    expect(await ork.signal(run, paid, { cents: 1 }, { key: "p1" })).toBe(false)
    await ork.advance("1m")
    await ork.signal(run, paid, { cents: 2 })
    await ork.advance("3d")
    expect(await run.result()).toEqual({ first: { cents: 1 }, second: { cents: 2 }, third: null })
    await expect(ork.signal(run, paid, { cents: 1.5 })).rejects.toThrow(InvalidInputError)
  })

  it("retries a step by its policy, and fails with the step's error", async () => {
    let tries = 0
    const flow = workflow("flow", {}, async (_, step) => {
      await step.run(
        "fragile",
        () => {
          tries++
          throw new Error(`no luck ${tries}`)
        },
        { retry: { attempts: 4, delay: "10m", maxDelay: "1h" } },
      )
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("29m")
    expect(tries).toBe(2)
    await ork.advance("1h")
    expect(tries).toBe(4)
    const failed = run.result()
    await expect(failed).rejects.toThrow(TaskFailedError)
    await expect(failed).rejects.toThrow("no luck 4")
  })

  it("calls another function, side by side with its own steps", async () => {
    const child = workflow("child", { input: z.object({ n: z.int() }) }, async ({ n }, step) => {
      await step.sleep("a moment", "1m")
      return n * 2
    })
    const parent = workflow("parent", {}, async (_, step) => {
      const results = await Promise.all([
        step.call(child, { n: 1 }),
        step.call(child, { n: 2 }),
        step.run("own", () => "x"),
        step.sleep("longer", "2m"),
      ])
      return results
    })
    await using ork = await testOrk({ run: [parent, child] })
    const run = await ork.enqueue(parent, {})
    await ork.advance("3m")
    expect(await run.result()).toEqual([2, 4, "x", null])
  })

  it("calls a task, whose job it waits for without a slot", async () => {
    let tries = 0
    const send = task("send", { input: z.object({ to: z.string() }), retry: { attempts: 2, delay: "1h" } }, ({ to }) => {
      if (++tries === 1) throw new Error("busy")
      return { sent: to }
    })
    const refuse = task("refuse", { retry: { attempts: 1 } }, () => {
      throw new Error("never")
    })
    const flow = workflow("flow", {}, async (_, step) => {
      const mail = await step.call(send, { to: "a" })
      const refused = await step.call(refuse, null).catch((error: Error) => error.message)
      return { mail, refused }
    })
    await using ork = await testOrk({ run: [flow, send, refuse] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    await ork.crash()
    await ork.advance("2h")
    expect(await run.result()).toEqual({
      mail: { sent: "a" },
      refused: expect.stringMatching(/^refuse .* failed: never$/) as string,
    })
    expect(tries).toBe(2)
  })

  it("gets the same error of a step, and of what it has called, when it runs again", async () => {
    const seen: unknown[][] = []
    const fails = task("fails", { retry: { attempts: 1 } }, () => {
      throw new RangeError("no paper")
    })
    const flow = workflow("flow", {}, async (_, step) => {
      const failing = [
        () => step.run("print", () => Promise.reject(new RangeError("no ink")), { retry: { attempts: 1 } }),
        () => step.tx("book", () => Promise.reject(new RangeError("no ledger")), { retry: { attempts: 1 } }),
        () => step.call(fails, {}),
      ]
      const errors: unknown[] = []
      for (const fail of failing) await fail().catch((error: Error) => errors.push(error.name, error.message))
      seen.push(errors)
      await step.sleep("a while", "1d")
    })
    await using ork = await testOrk({ run: [flow, fails] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("2d")
    await run.result()
    expect(seen).toHaveLength(2)
    expect(seen[1]).toEqual(seen[0])
    expect(seen[0]).toEqual([
      "TaskFailedError",
      `step print of ${run.id} failed: no ink`,
      "TaskFailedError",
      `step book of ${run.id} failed: no ledger`,
      "TaskFailedError",
      expect.stringMatching(/^fails \S+ failed: no paper$/),
    ])
  })

  it("fails when it uses one name for steps of two kinds", async () => {
    const flow = workflow("flow", {}, async (_, step) => {
      await step.run("pay", () => 1)
      await step.sleep("pay", "1s")
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    await expect(run.result()).rejects.toThrow(/the step "pay" is step\.sleep in this code, but was recorded as step\.run at/)
  })

  it.each<[string, (step: StepTools) => unknown]>([
    ["a step that waits", async (step) => await step.sleep("inner", "1h")],
    ["a step that runs code", async (step) => await step.run("inner", () => 1)],
    ["the time", (step) => step.now().getTime()],
    ["a step that waits, after an await", async (step) => await Promise.resolve().then(() => step.sleep("inner", "1h"))],
    [
      "a step that runs code, after an await",
      async (step) => {
        await new Promise(setImmediate)
        return await step.run("inner", () => 1)
      },
    ],
    ["a signal, in a function that it calls", async (step) => await Promise.all([1].map(() => step.waitFor(paid)))],
  ])("fails at once when the code of a step begins %s", async (_, begin) => {
    let tries = 0
    const flow = workflow("flow", {}, async (_input, step) => {
      await step.run("outer", () => {
        tries++
        return begin(step)
      })
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    await expect(run.result()).rejects.toThrow('begins in the code of the step "outer"')
    expect(tries).toBe(1)
  })

  it("begins steps that the code of another step has led to, but does not contain", async () => {
    const flow = workflow("flow", {}, async (_, step) => {
      const later = Promise.withResolvers<number>()
      const second = later.promise.then((n) => step.run("second", () => n + 1))
      const first = await step.run("first", async () => {
        await Promise.resolve()
        later.resolve(1)
        return 1
      })
      const third = step.run("third", () => first).then((n) => step.run("fourth", () => n + 3))
      return [first, await second, await third]
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    expect(await run.result()).toEqual([1, 2, 4])
  })

  it("has steps with names of 1 to 500 characters, whatever the size of their results", async () => {
    const large = "x".repeat(100_000)
    const named = workflow("named", { input: z.object({ name: z.string() }) }, async ({ name }, step) => {
      const { length } = await step.run(name, () => large)
      await step.sleep("a while", "1s")
      return length
    })
    await using ork = await testOrk({ run: [named] })
    for (const name of ["", "n".repeat(501), "a\0b", "\ud800"]) {
      const run = await ork.enqueue(named, { name })
      await ork.advance("1m")
      await expect(run.result()).rejects.toThrow("the name of a step is")
    }
    for (const name of ["n".repeat(500), "注".repeat(500), "../../x"]) {
      const run = await ork.enqueue(named, { name })
      await ork.advance("1m")
      expect(await run.result()).toBe(large.length)
    }
  })

  it("calls no graph", async () => {
    const print = task("print", {}, () => null)
    const printing = graph("printing", {}, (g) => g.task("print", print, {}))
    const flow = workflow("flow", {}, async (_, step) => await step.call(printing as never, {}))
    await using ork = await testOrk({ run: [flow, printing] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    await expect(run.result()).rejects.toThrow("only what task, txTask and workflow returned can be called")
  })

  it("fails when its code uses a recorded name for something else", async () => {
    let changed = false
    const flow = workflow("flow", {}, async (_, step) => {
      if (changed) await step.sleep("first", "1s")
      else await step.run("first", () => 1)
      await step.sleep("second", "1h")
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    changed = true
    await ork.advance("1h")
    await expect(run.result()).rejects.toThrow(
      /the step "first" is step\.sleep in this code, but was recorded as step\.run at .*give the changed step another name/,
    )
  })

  it("chooses between old and new code with patch", async () => {
    let deployed = false
    const flow = workflow("flow", {}, async (_, step) => {
      await step.run("a", () => 1)
      const isNew = deployed && step.patch("skip the wait")
      if (!isNew) await step.sleep("wait", "1h")
      return isNew
    })
    await using ork = await testOrk({ run: [flow] })
    const old = await ork.enqueue(flow, {})
    await ork.advance("1m")
    deployed = true
    const fresh = await ork.enqueue(flow, {})
    await ork.advance("1h")
    expect([await old.result(), await fresh.result()]).toEqual([false, true])
  })

  it("ends when it is cancelled, asleep or at work", async () => {
    const flow = workflow("flow", {}, async (_, step) => {
      await step.sleep("long", "30d")
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    await run.cancel()
    await ork.advance("1m")
    await expect(run.result()).rejects.toThrow(CancelledError)
  })

  it("runs its failed step again when it is retried, and keeps the others", async () => {
    const ran: string[] = []
    let broken = true
    const flow = workflow("flow", {}, async (_, step) => {
      await step.run("a", () => void ran.push("a"))
      await step.run(
        "b",
        () => {
          ran.push("b")
          if (broken) throw new Error("broken")
        },
        { retry: { attempts: 1 } },
      )
      return "done"
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.advance("1m")
    expect((await run.refresh()).status).toBe("failed")
    broken = false
    await run.retry()
    await ork.advance("1m")
    expect(await run.result()).toBe("done")
    expect(ran).toEqual(["a", "b", "b"])
  })

  it("runs a step and those after it again when it is retried from there, whatever its state", async () => {
    const ran: string[] = []
    const flow = workflow("flow", {}, async (_, step) => {
      await step.run("a", () => void ran.push("a"))
      const cents = (await step.waitFor(paid))!.cents
      await step.run("b", () => void ran.push(`b ${cents}`))
      return await step.run("c", () => ran.push("c"))
    })
    await using ork = await testOrk({ run: [flow] })
    const run = await ork.enqueue(flow, {})
    await ork.signal(run, paid, { cents: 5 })
    await ork.advance("1m")
    expect(await run.result()).toBe(3)
    await run.retry({ from: "b" })
    await ork.advance("1m")
    expect(await run.result()).toBe(5)
    expect(ran).toEqual(["a", "b 5", "c", "b 5", "c"])
    await run.retry({ from: "paid" })
    await ork.advance("1m")
    expect(ran.slice(5)).toEqual(["b 5", "c"])
    await expect(run.retry({ from: "d" })).rejects.toThrow("has no step d; its steps are a, paid, b, c")
  })
})
