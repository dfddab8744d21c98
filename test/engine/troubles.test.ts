import { describe, expect, it } from "vitest"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import type { Executor } from "../../src/executors/executor.ts"
import type { Advanced, Batch, Store } from "../../src/store/contract/store.ts"
import { setup } from "./world.ts"

/** The first call that `when` picks is carried out, and its answer lost. */
const loseAnswer = (store: Store, when: (batch: Batch, advanced: Advanced) => boolean): (() => boolean) => {
  const real = store.advance
  let lost = false
  store.advance = async (batch) => {
    const advanced = await real(batch)
    if (lost || !when(batch, advanced)) return advanced
    lost = true
    throw new Error("the connection is gone")
  }
  return () => lost
}

const ONE = "name: one\ntasks: { a: { command: x } }"

describe("an answer of the store that was lost", () => {
  it("does not keep the end of a run from whoever awaits it", async () => {
    const world = await setup()
    const lost = loseAnswer(world.store, (_, { closed }) => closed.length > 0)
    const runId = await world.trigger(ONE)
    expect(await world.ended(runId)).toMatchObject({ status: "success" })
    expect(lost()).toBe(true)
  })

  it("does not stop a task whose start was in it", async () => {
    const world = await setup({ a: async (_, { sleep }) => (await sleep(60_000), "done") })
    const lost = loseAnswer(world.store, ({ changes }) => changes.some(({ kind }) => kind === "started"))
    const runId = await world.trigger(ONE)
    await world.ended(runId)
    expect(lost()).toBe(true)
    expect(await world.task(runId, "a")).toMatchObject({ status: "success", attempt: 1, output: { inline: "done" } })
    expect(world.launched).toHaveLength(1)
  })

  it("gives back what was claimed in it, which then runs once", async () => {
    const world = await setup()
    const lost = loseAnswer(world.store, (_, { claims }) => claims.length > 0)
    const runId = await world.trigger(ONE)
    await world.ended(runId)
    expect(lost()).toBe(true)
    expect(await world.task(runId, "a")).toMatchObject({ status: "success", attempt: 1 })
    expect(world.launched).toHaveLength(1)
  })

  it("does not leave a new run lying", async () => {
    const world = await setup()
    await world.pass(1000)
    const real = world.store.createRuns
    world.store.createRuns = async (runs) => {
      await real(runs)
      throw new Error("the connection is gone")
    }
    await expect(world.trigger(ONE)).rejects.toThrow("the connection is gone")
    await world.pass(1000)
    expect(await world.store.listRuns({ limit: 10 })).toMatchObject([{ status: "success" }])
  })
})

describe("an engine that is told to stop", () => {
  const refuse = (): Promise<never> => Promise.reject(new Error("the disk is full"))

  it("comes to its end though the store takes no batch any more, and says what is left", async () => {
    const told: [object, string][] = []
    const log = { info: () => {}, warn: () => {}, error: (fields: object, text: string) => void told.push([fields, text]) }
    const world = await setup({ a: (_, { untilStopped }) => untilStopped() }, { log })
    const real = { advance: world.store.advance, deregisterHolder: world.store.deregisterHolder }
    const runId = await world.trigger(ONE)
    await world.pass(1000)
    Object.assign(world.store, { advance: refuse, deregisterHolder: refuse })
    const begun = world.clock.now()
    await world.until(world.engine.stop({ patienceMs: 5000 }))
    expect(world.clock.now() - begun).toBeLessThan(20_000)
    expect(told).toEqual([
      [{ attempts: 0, changes: 1 }, expect.stringContaining("the store takes no batch")],
      [{ error: "Error: the disk is full" }, expect.stringContaining("could not say goodbye")],
    ])
    Object.assign(world.store, real)
    expect(await world.task(runId, "a")).toMatchObject({ status: "running" })
  })

  it("comes to its end though the store does not even answer", async () => {
    const world = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const real = { advance: world.store.advance, deregisterHolder: world.store.deregisterHolder }
    await world.trigger(ONE)
    await world.pass(1000)
    const silent = (): Promise<never> => new Promise(() => {})
    Object.assign(world.store, { advance: silent, deregisterHolder: silent })
    const begun = world.clock.now()
    await world.until(world.engine.stop())
    expect(world.clock.now() - begun).toBeLessThan(20_000)
    Object.assign(world.store, real)
  })
})

describe("an attempt", () => {
  it("stays a success when its cache key cannot be told any more", async () => {
    let asked = 0
    const evaluate: typeof inlineEvaluator.evaluate = (source, scope) => {
      if (++asked > 1) throw new Error("the evaluator went away")
      return inlineEvaluator.evaluate(source, scope)
    }
    const world = await setup({ a: () => "done" }, { evaluator: { ...inlineEvaluator, evaluate } })
    const runId = await world.trigger("name: c\ntasks: { a: { command: x, cache: { key: run.workflow } } }")
    expect(await world.ended(runId)).toMatchObject({ status: "success" })
    expect(asked).toBe(2)
    expect(await world.task(runId, "a")).toMatchObject({ attempt: 1, output: { inline: "done" } })
  })

  it("has an end even when its executor breaks", async () => {
    const process: Executor = { name: "process", launch: () => Promise.reject(new Error("a bug")) }
    const world = await setup({}, { executors: new Map([["process", process]]) })
    const runId = await world.trigger(ONE)
    expect(await world.ended(runId)).toMatchObject({ status: "failed" })
    expect(await world.task(runId, "a")).toMatchObject({ outcome: "failed", error: "could not run the task: a bug" })
  })
})

describe("an engine that cannot start", () => {
  it("stops what it has started, so that its process can end", async () => {
    const { store } = await setup()
    const calls: string[] = []
    const executor: Executor = {
      name: "process",
      start: () => Promise.resolve(void calls.push("start")),
      stop: () => Promise.resolve(void calls.push("stop")),
      launch: () => Promise.reject(new Error("nothing is launched")),
    }
    const broken = { ...store, secret: () => Promise.reject(new Error("no such table")) }
    await expect(setup({}, { store: broken, executors: new Map([["process", executor]]) })).rejects.toThrow("no such table")
    expect(calls).toEqual(["start", "stop"])
  })
})
