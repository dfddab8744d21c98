import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { once } from "node:events"
import { afterAll, describe, expect, it } from "vitest"
import { type AnyFunction, FUNCTION_EXECUTOR, type FunctionContext } from "../../core/model/function.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import { allLines, assignment, launch, type Launched, type Overrides } from "../conformance/fixture.ts"
import { FatalError, RetryLater } from "../errors.ts"
import { InProcessExecutor } from "./in-process.ts"

const folder = mkdtempSync(join(tmpdir(), "ork-in-process-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const setup = (call: AnyFunction) => {
  /** Pending timers by their milliseconds. */
  const timers = new Map<number, () => void>()
  const after = (ms: number, fn: () => void) => {
    timers.set(ms, fn)
    return () => void timers.delete(ms)
  }
  const clock = { now: () => 1_700_000_000_000, monotonic: () => 1_700_000_000_000, after }
  const objects = new FileObjectStore(join(folder, "objects"))
  const functions = new Map([["resize", call]])
  const nameOf = (node: { function?: string }): string => node.function ?? ""
  const executor = new InProcessExecutor({ name: FUNCTION_EXECUTOR, functions, nameOf, objects, clock })
  const fixture = { executor, objects, folder, cleanup: () => Promise.resolve() }
  const go = ({ node, ...rest }: Overrides = {}): Launched =>
    launch(fixture, assignment(folder, null, { ...rest, node: { function: "resize", ...node } }))
  return { executor, timers, objects, go }
}

const linesOf = async ({ log }: Launched): Promise<string[]> => (await allLines(log)).map(({ line }) => line)

describe("a function in this process", () => {
  it("gets its input and context, and its return value is the output", async () => {
    const { go } = setup((input: { greeting: string }, ctx: FunctionContext) => {
      ctx.log("saw", input)
      ctx.log.warn("careful")
      return {
        greeting: input.greeting,
        task: ctx.taskName,
        attempt: ctx.attempt,
        env: [ctx.env["COLOUR"], ctx.env["ORK_RUN_ID"]],
      }
    })
    const run = go({ attempt: 2, env: { COLOUR: "red" } })
    expect(await run.result).toMatchObject({
      state: "success",
      externalId: String(process.pid),
      output: { inline: { greeting: "hello", task: "task", attempt: 2, env: ["red", "run-1"] } },
    })
    expect(await linesOf(run)).toEqual(["saw { greeting: 'hello' }", "warning: careful"])
  })

  it("fails with the error that it throws, with its stack in the log", async () => {
    const run = setup(() => {
      throw new Error("no such row")
    }).go()
    expect(await run.result).toMatchObject({ state: "failed", error: "no such row" })
    const lines = await linesOf(run)
    expect(lines[0]).toBe("Error: no such row")
    expect(lines[1]).toContain("in-process.test.ts")
  })

  it("decides by its error whether and when it is retried", async () => {
    const thrown = (error: Error) =>
      setup(() => {
        throw error
      }).go().result
    expect(await thrown(new FatalError("bad"))).toMatchObject({ state: "failed", error: "bad", retryable: false })
    expect(await thrown(new RetryLater("2s"))).toMatchObject({ state: "failed", retryAfterMs: 2000 })
  })

  it("has secrets masked in log and error", async () => {
    const run = setup((_: unknown, ctx: FunctionContext) => {
      ctx.log("it is", ctx.env["TOKEN"])
      throw new Error(`I know ${ctx.env["TOKEN"]}`)
    }).go({ env: { TOKEN: "hush-hush" }, secrets: ["hush-hush"] })
    expect(await run.result).toMatchObject({ error: "I know ***" })
    expect((await linesOf(run)).join("\n")).not.toContain("hush-hush")
  })

  it("has a large output stored as an object, and fails if it is too large", async () => {
    const { go, objects } = setup(() => "x".repeat(100_000))
    const { output } = await go().result
    expect(output).toMatchObject({ bytes: 100_002 })
    expect((await objects.get((output as { key: string }).key))?.byteLength).toBe(100_002)
    expect(await go({ maxOutputBytes: 1000 }).result).toMatchObject({
      state: "failed",
      error: expect.stringContaining("larger than the limit") as string,
    })
  })

  it("has its signal aborted when it is stopped", async () => {
    const { go } = setup(async (_: unknown, { signal, log }: FunctionContext) => {
      const aborted = once(signal, "abort")
      log("waiting")
      await aborted
      return "cleaned up"
    })
    const run = go()
    await run.line("waiting")
    run.stop("cancel")
    expect(await run.result).toMatchObject({ state: "cancelled" })
  })

  it("keeps running after the grace period, and what it writes then is ignored", async () => {
    const [begun, later, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { executor, objects, timers } = setup(async (_: unknown, ctx: FunctionContext) => {
      ctx.log("waiting")
      begun.resolve()
      await later.promise
      ctx.log("too late")
      ctx.progress(1)
      ended.resolve()
    })
    const stop = new AbortController()
    const updates: unknown[] = []
    const context = { signal: stop.signal, started: () => {}, progress: (update: unknown) => void updates.push(update) }
    const work = assignment(folder, null, { graceMs: 1000, node: { function: "resize" } })
    const result = executor.launch(work, context)
    await begun.promise
    stop.abort("timeout")
    timers.get(1000)!()
    expect(await result).toMatchObject({ state: "timeout" })
    later.resolve()
    await ended.promise
    expect(updates).toEqual([])
    expect((await allLines(new TaskLog(objects, work.prefix))).map(({ line }) => line)).toEqual([
      "waiting",
      "ork: the function did not end when it was stopped, and keeps running in its process",
    ])
  })

  it("that does not exist fails without a retry, and the error lists those that do", async () => {
    expect(await setup(() => 1).go({ node: { function: "resise" } }).result).toMatchObject({
      state: "failed",
      error: "no function resise is registered here; there are resize",
      retryable: false,
    })
  })

  it("is not called when it was stopped before its start", async () => {
    const { executor } = setup(() => {
      throw new Error("called")
    })
    const context = { signal: AbortSignal.abort("cancel"), started: () => {}, progress: () => {} }
    const work = assignment(folder, null, { node: { function: "resize" } })
    expect(await executor.launch(work, context)).toMatchObject({ state: "cancelled", startedAt: null })
  })
})
