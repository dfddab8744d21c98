import { describe, expect, it } from "vitest"
import type { HolderId, RunId } from "../../src/core/model/ids.ts"
import { explain } from "../../src/engine/services/explain.ts"
import { fail, setup as setupEngine, type Script } from "./world.ts"

const hang: Script = (_, { untilStopped }) => untilStopped()

const setup = async (scripts: { [task: string]: Script } = {}) => {
  const world = await setupEngine(scripts)
  const { store } = world
  return {
    ...world,
    /** Sentences by task; those about the run alone under "run". */
    why: async (runId: RunId, { task, serves = true }: { task?: string; serves?: boolean } = {}) => {
      const told = await explain({ store, lives: () => serves }, runId, task)
      return Object.fromEntries(told.map((each) => [each.task === null ? "run" : each.task + each.path, each.sentence]))
    },
  }
}

describe("explain", () => {
  it("says which upstream a task waits for, and what runs where", async () => {
    const world = await setup({ a: hang })
    const runId = await world.trigger("name: w\ntasks: { a: { command: x }, b: { depends_on: [a], command: x } }")
    await world.pass(100)
    expect(await world.why(runId)).toEqual({
      a: expect.stringMatching(/^a runs on test since 2026-01-01T00:00:00\.\d+Z \(attempt 1\)\.$/),
      b: "b waits for a (running).",
    })
  })

  it("says which limit is full, and who holds it", async () => {
    const world = await setup({ t: hang })
    const runId = await world.trigger("name: w\ntasks: { t: { command: x, parallel: 3, concurrency: 2 } }")
    await world.pass(100)
    const why = await world.why(runId)
    expect(why["t2"]).toBe("t[2] waits for a slot of its concurrency: 2 of 2 in use by t[0], t[1].")
  })

  it("says when a retry comes, and after which error", async () => {
    const world = await setup({ a: () => fail("it broke") })
    const runId = await world.trigger("name: w\ntasks: { a: { command: x, retry: { max_attempts: 2, base_delay: 1h } } }")
    await world.pass(1000)
    expect(await world.why(runId)).toEqual({
      a: expect.stringMatching(/^a waits for its retry at 2026-01-01T0\S+, after attempt 1 failed: it broke\.$/),
    })
  })

  it("tells of what has ended too: failed and skipped tasks", async () => {
    const world = await setup({ a: () => fail("it broke") })
    const runId = await world.trigger(
      "name: w\ntasks: { a: { command: x }, b: { depends_on: [a], command: x }, c: { command: x } }",
    )
    await world.ended(runId)
    expect(await world.why(runId)).toEqual({
      a: "a failed in attempt 1 of at most 1: it broke.",
      b: expect.stringMatching(/^b was skipped: .*a failed/),
    })
    expect(await world.why(runId, { task: "c" })).toEqual({ c: "c succeeded in attempt 1." })
  })

  it("says that a fan-out waits before it has any instances", async () => {
    const world = await setup({ a: hang })
    const runId = await world.trigger(
      "name: w\ntasks: { a: { command: x }, b: { depends_on: [a], foreach: a.list, command: x } }",
    )
    await world.pass(100)
    expect((await world.why(runId))["b"]).toBe("b waits for a (running).")
  })

  it("says that nobody takes work from a queue, and that one is paused", async () => {
    const world = await setup()
    const runId = await world.trigger("name: w\ntasks: { a: { command: x, queue: gpu } }")
    await world.pass(100)
    expect(await world.why(runId, { serves: false })).toEqual({
      a: "a waits because no live server or worker accepts the queue gpu.",
    })
    expect(await world.why(runId)).toEqual({ a: "a waits because no live server or worker accepts the queue gpu." })
    await world.store.putQueue("gpu", { paused: true })
    expect(await world.why(runId)).toEqual({ a: "a waits because the queue gpu is paused." })
  })

  it("says that a task of a cluster waits for its queue", async () => {
    const world = await setup({ t: hang })
    await world.store.putQueue("hpc", { concurrency: 1 })
    const runId = await world.trigger("name: w\ntasks: { t: { executor: slurm, queue: hpc, command: x, parallel: 2 } }")
    await world.pass(100)
    expect((await world.why(runId))["t1"]).toBe("t[1] waits for a slot of the queue hpc.")
    await world.store.putQueue("hpc", { concurrency: null, paused: true })
    expect((await world.why(runId))["t1"]).toBe("t[1] waits because the queue hpc is paused.")
    await world.store.putQueue("hpc", { paused: false, rate: { limit: 2, periodMs: 60_000 } })
    expect((await world.why(runId))["t1"]).toMatch(/or for the rate of the queue hpc \(at most 2 starts in 60 s\)\.$/)
  })

  it("says that nobody has the labels of a task, until a worker comes that has", async () => {
    const world = await setup()
    const runId = await world.trigger("name: w\ntasks: { a: { command: x, labels: [gpu, big] } }")
    await world.pass(100)
    const nobody = "a waits because no live server or worker accepts the queue default and has the labels big, gpu."
    expect(await world.why(runId)).toEqual({ a: nobody })
    const employ = (id: string, labels: string[]): Promise<void> =>
      world.store.registerHolder({
        id: id as HolderId,
        kind: "worker",
        name: id,
        leaseMs: 15_000,
        process: "",
        runId: null,
        capabilities: { queues: ["default"], labels, handlers: [], capacity: 1, version: "1" },
      })
    await employ("small", ["gpu"])
    expect(await world.why(runId)).toEqual({ a: nobody })
    await employ("large", ["gpu", "big", "eu"])
    expect(await world.why(runId)).toEqual({ a: "a is ready and waits for a free slot." })
  })

  it("says which runs are in the way of one that is pending", async () => {
    const world = await setup({ a: hang })
    const text = "name: w\nmax_active_runs: 1\ntasks: { a: { command: x } }"
    await world.trigger(text)
    const runId = await world.trigger(text)
    await world.pass(100)
    expect(await world.why(runId)).toEqual({
      run: "The run waits because 1 of at most 1 runs of w are active (max_active_runs).",
    })
  })

  it("says that a run is paused", async () => {
    const world = await setup({ a: hang })
    const runId = await world.trigger("name: w\ntasks: { a: { command: x }, b: { depends_on: [a], command: x } }")
    await world.pass(100)
    await world.engine.pause(runId, true)
    expect((await world.why(runId))["run"]).toBe("The run is paused: nothing new starts until it is resumed.")
  })

  it("tells the first two hundred of many, and how many more there are", async () => {
    const world = await setup({ t: hang })
    const runId = await world.trigger("name: w\ntasks: { t: { command: x, parallel: 500 } }")
    await world.pass(100)
    const told = await explain({ store: world.store, lives: () => true }, runId)
    expect([told.length, told.at(-1)!.sentence]).toEqual([201, "And 300 more tasks that have not succeeded."])
  })

  it("refuses a run and a task that are not there", async () => {
    const world = await setup()
    const runId = await world.trigger("name: w\ntasks: { a: { command: x } }")
    await expect(world.why(runId, { task: "b" })).rejects.toThrow("has no task b")
    await expect(world.why("00000000-0000-7000-8000-000000000000" as RunId)).rejects.toThrow("there is no run")
  })
})
