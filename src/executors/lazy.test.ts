import { expect, test } from "vitest"
import type { Executor } from "./executor.ts"
import { LazyExecutor } from "./lazy.ts"
import { assignment, realClock } from "./conformance/fixture.ts"

const setup = (options: { needsCleanup?: boolean; needsSweep?: boolean; broken?: number } = {}) => {
  const calls: string[] = []
  let broken = options.broken ?? 0
  const inner: Executor = {
    name: "inner",
    start: async () => void calls.push("start"),
    stop: async () => void calls.push("stop"),
    sweep: async () => void calls.push("sweep"),
    launch: async () => ({ state: "success", startedAt: 1, finishedAt: 2 }),
  }
  const load = async () => {
    calls.push("load")
    if (broken-- > 0) throw new Error("no such library")
    return inner
  }
  const executor = new LazyExecutor({
    name: "inner",
    clock: realClock,
    load,
    needsCleanup: () => options.needsCleanup === true,
    needsSweep: () => options.needsSweep === true,
  })
  const run = () =>
    executor.launch(assignment("/", null), { signal: new AbortController().signal, started() {}, progress() {} })
  return { executor, run, calls }
}

test("a module is loaded and started once, at the first launch", async () => {
  const { executor, run, calls } = setup()
  await executor.start()
  expect(calls).toEqual([])
  expect(await Promise.all([run(), run()])).toEqual(Array(2).fill({ state: "success", startedAt: 1, finishedAt: 2 }))
  await executor.stop()
  expect(calls).toEqual(["load", "start", "stop"])
})

test("a stop does not load a module that was never used", async () => {
  const { executor, calls } = setup()
  await executor.start()
  await executor.stop()
  expect(calls).toEqual([])
})

test("a sweep does not load a module that was never used", async () => {
  const { executor, run, calls } = setup()
  await executor.sweep(async () => new Set())
  expect(calls).toEqual([])
  await run()
  await executor.sweep(async () => new Set())
  expect(calls).toEqual(["load", "start", "sweep"])
})

test("a sweep loads a module that may find work of an earlier process", async () => {
  const { executor, calls } = setup({ needsSweep: true })
  await executor.start()
  expect(calls).toEqual([])
  await executor.sweep(async () => new Set())
  expect(calls).toEqual(["load", "start", "sweep"])
})

test("a module that must clean up is loaded at the start", async () => {
  const { executor, calls } = setup({ needsCleanup: true })
  await executor.start()
  expect(calls).toEqual(["load", "start"])
})

test("a module that cannot be loaded fails the attempt with the reason, and the next launch tries again", async () => {
  const { executor, run } = setup({ needsCleanup: true, broken: 2 })
  await executor.start()
  expect(await run()).toMatchObject({ state: "failed", error: "executor inner could not start: no such library" })
  expect((await run()).state).toBe("success")
})
