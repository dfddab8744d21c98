import { describe, expect, it } from "vitest"
import type { HolderId, RunId } from "../../src/core/model/ids.ts"
import { explain } from "../../src/engine/services/explain.ts"
import { fail, setup as setupEngine, type Script } from "./setup.ts"

const hang: Script = (_, { untilStopped }) => untilStopped()

const setup = async (scripts: { [task: string]: Script } = {}) => {
  const fixture = await setupEngine(scripts)
  const { store } = fixture
  return {
    ...fixture,
    /** Sentences by task; those about the run under "run". */
    why: async (
      runId: RunId,
      { task, serves = true, problem = null }: { task?: string; serves?: boolean; problem?: string | null } = {},
    ) => {
      const options = { store, isAlive: () => serves, serverProblem: () => Promise.resolve(problem) }
      const sentences = await explain(options, runId, task)
      return Object.fromEntries(sentences.map((each) => [each.task === null ? "run" : each.task + each.path, each.sentence]))
    },
  }
}

describe("explain", () => {
  it("names the upstream task that a task waits for, and where a task runs", async () => {
    const fixture = await setup({ a: hang })
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x }, b: { depends_on: [a], command: x } }")
    await fixture.pass(100)
    expect(await fixture.why(runId)).toEqual({
      a: expect.stringMatching(/^a runs on test since 2026-01-01T00:00:00\.\d+Z \(attempt 1\)\.$/),
      b: "b waits for a (running).",
    })
  })

  it("mentions a problem of the server while the run is open", async () => {
    const fixture = await setup({ a: hang })
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x } }")
    await fixture.pass(100)
    const problem = "the disk of its data folder is full"
    expect((await fixture.why(runId, { problem }))["run"]).toBe(`The server has a problem: ${problem}.`)
    await fixture.engine.cancel(runId)
    await fixture.ended(runId)
    expect(await fixture.why(runId, { problem })).not.toHaveProperty("run")
  })

  it("mentions notifications that could not be delivered", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(
      'name: w\nnotify: [{ on: [success], webhook: "https://a.test" }]\ntasks: { a: { command: x } }',
    )
    await fixture.ended(runId)
    const [notification] = await fixture.store.claimNotifications({ limit: 1, leaseMs: 1000 })
    await fixture.store.postponeNotification(notification!, "a.test answered 500", 5000)
    expect((await fixture.why(runId))["run"]).toBe(
      "The notification of success could not be delivered: a.test answered 500. Ork tries again after 1 try.",
    )
    await fixture.store.postponeNotification({ ...notification!, tries: 30 }, "a.test answered 503", null)
    expect((await fixture.why(runId))["run"]).toBe(
      "The notification of success could not be delivered: a.test answered 503. Ork has given up after 30 tries.",
    )
  })

  it("names the full limit and the tasks that use it", async () => {
    const fixture = await setup({ t: hang })
    const runId = await fixture.trigger("name: w\ntasks: { t: { command: x, parallel: 3, concurrency: 2 } }")
    await fixture.pass(100)
    const why = await fixture.why(runId)
    expect(why["t2"]).toBe("t[2] waits for a slot of its concurrency: 2 of 2 in use by t[0], t[1].")
  })

  it("gives the time of the next retry and the last error", async () => {
    const fixture = await setup({ a: () => fail("it broke") })
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x, retry: { max_attempts: 2, base_delay: 1h } } }")
    await fixture.pass(1000)
    expect(await fixture.why(runId)).toEqual({
      a: expect.stringMatching(/^a waits for its retry at 2026-01-01T0\S+, after attempt 1 failed: it broke\.$/),
    })
  })

  it("explains failed and skipped tasks", async () => {
    const fixture = await setup({ a: () => fail("it broke") })
    const runId = await fixture.trigger(
      "name: w\ntasks: { a: { command: x }, b: { depends_on: [a], command: x }, c: { command: x } }",
    )
    await fixture.ended(runId)
    expect(await fixture.why(runId)).toEqual({
      a: "a failed in attempt 1 of at most 1: it broke.",
      b: expect.stringMatching(/^b was skipped: .*a failed/),
    })
    expect(await fixture.why(runId, { task: "c" })).toEqual({ c: "c succeeded in attempt 1." })
  })

  it("explains a fan-out that waits before it has instances", async () => {
    const fixture = await setup({ a: hang })
    const runId = await fixture.trigger(
      "name: w\ntasks: { a: { command: x }, b: { depends_on: [a], foreach: a.list, command: x } }",
    )
    await fixture.pass(100)
    expect((await fixture.why(runId))["b"]).toBe("b waits for a (running).")
  })

  it("reports a queue that no server accepts and a paused queue", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x, queue: gpu } }")
    await fixture.pass(100)
    expect(await fixture.why(runId, { serves: false })).toEqual({
      a: "a waits because no live server or worker accepts the queue gpu.",
    })
    expect(await fixture.why(runId)).toEqual({ a: "a waits because no live server or worker accepts the queue gpu." })
    await fixture.store.putQueue("gpu", { paused: true })
    expect(await fixture.why(runId)).toEqual({ a: "a waits because the queue gpu is paused." })
  })

  it("reports a remote task that waits for its queue", async () => {
    const fixture = await setup({ t: hang })
    await fixture.store.putQueue("hpc", { concurrency: 1 })
    const runId = await fixture.trigger("name: w\ntasks: { t: { executor: slurm, queue: hpc, command: x, parallel: 2 } }")
    await fixture.pass(100)
    expect((await fixture.why(runId))["t1"]).toBe("t[1] waits for a slot of the queue hpc.")
    await fixture.store.putQueue("hpc", { concurrency: null, paused: true })
    expect((await fixture.why(runId))["t1"]).toBe("t[1] waits because the queue hpc is paused.")
    await fixture.store.putQueue("hpc", { paused: false, rate: { limit: 2, periodMs: 60_000 } })
    expect((await fixture.why(runId))["t1"]).toMatch(/or for the rate of the queue hpc \(at most 2 starts in 60 s\)\.$/)
  })

  it("reports missing labels until a worker with these labels joins", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x, labels: [gpu, big] } }")
    await fixture.pass(100)
    const unaccepted = "a waits because no live server or worker accepts the queue default and has the labels big, gpu."
    expect(await fixture.why(runId)).toEqual({ a: unaccepted })
    const employ = (id: string, labels: string[]): Promise<void> =>
      fixture.store.registerHolder({
        id: id as HolderId,
        kind: "worker",
        name: id,
        leaseMs: 15_000,
        process: "",
        runId: null,
        capabilities: { queues: ["default"], labels, handlers: [], capacity: 1, version: "1" },
      })
    await employ("small", ["gpu"])
    expect(await fixture.why(runId)).toEqual({ a: unaccepted })
    await employ("large", ["gpu", "big", "eu"])
    expect(await fixture.why(runId)).toEqual({ a: "a is ready and waits for a free slot." })
  })

  it("reports max_active_runs for a pending run", async () => {
    const fixture = await setup({ a: hang })
    const text = "name: w\nmax_active_runs: 1\ntasks: { a: { command: x } }"
    await fixture.trigger(text)
    const runId = await fixture.trigger(text)
    await fixture.pass(100)
    expect(await fixture.why(runId)).toEqual({
      run: "The run waits because 1 of at most 1 runs of w are active (max_active_runs).",
    })
  })

  it("reports a paused run", async () => {
    const fixture = await setup({ a: hang })
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x }, b: { depends_on: [a], command: x } }")
    await fixture.pass(100)
    await fixture.engine.setPaused(runId, true)
    expect((await fixture.why(runId))["run"]).toBe("The run is paused: nothing new starts until it is resumed.")
  })

  it("lists at most two hundred tasks, and counts the rest", async () => {
    const fixture = await setup({ t: hang })
    const runId = await fixture.trigger("name: w\ntasks: { t: { command: x, parallel: 500 } }")
    await fixture.pass(100)
    const sentences = await explain({ store: fixture.store, isAlive: () => true }, runId)
    expect([sentences.length, sentences.at(-1)!.sentence]).toEqual([201, "And 300 more tasks that have not succeeded."])
  })

  it("rejects an unknown run and an unknown task", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x } }")
    await expect(fixture.why(runId, { task: "b" })).rejects.toThrow("has no task b")
    await expect(fixture.why("00000000-0000-7000-8000-000000000000" as RunId)).rejects.toThrow("there is no run")
  })
})
