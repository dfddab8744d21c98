import { expect, test } from "vitest"
import type { Executor } from "./executor.ts"
import { LazyExecutor } from "./lazy.ts"
import { assignment, realClock } from "./conformance/fixture.ts"

const setup = (options: { due?: boolean; broken?: number } = {}) => {
  const seen: string[] = []
  let broken = options.broken ?? 0
  const inner: Executor = {
    name: "inner",
    start: async () => void seen.push("start"),
    stop: async () => void seen.push("stop"),
    launch: async () => ({ state: "success", startedAt: 1, finishedAt: 2 }),
  }
  const load = async () => {
    seen.push("load")
    if (broken-- > 0) throw new Error("no such library")
    return inner
  }
  const executor = new LazyExecutor({ name: "inner", clock: realClock, load, due: () => options.due === true })
  const run = () =>
    executor.launch(assignment("/", null), { signal: new AbortController().signal, started() {}, progress() {} })
  return { executor, run, seen }
}

test("a module is loaded and started once, at the first launch", async () => {
  const { executor, run, seen } = setup()
  await executor.start()
  expect(seen).toEqual([])
  expect(await Promise.all([run(), run()])).toEqual(Array(2).fill({ state: "success", startedAt: 1, finishedAt: 2 }))
  await executor.stop()
  expect(seen).toEqual(["load", "start", "stop"])
})

test("one that was never used is not loaded by a stop", async () => {
  const { executor, seen } = setup()
  await executor.start()
  await executor.stop()
  expect(seen).toEqual([])
})

test("one with something to tidy up is loaded at start", async () => {
  const { executor, seen } = setup({ due: true })
  await executor.start()
  expect(seen).toEqual(["load", "start"])
})

test("a module that cannot be loaded fails the attempt in words, and the next launch tries again", async () => {
  const { executor, run } = setup({ due: true, broken: 2 })
  await executor.start()
  expect(await run()).toMatchObject({ state: "failed", error: "executor inner could not start: no such library" })
  expect((await run()).state).toBe("success")
})
