import { describe, expect, it } from "vitest"
import { inlineEvaluator } from "../../src/engine/gate/evaluator.ts"
import type { Executor } from "../../src/executors/executor.ts"
import { InvalidValue, StoreUnavailable } from "../../src/store/contract/errors.ts"
import type { Store } from "../../src/store/contract/store.ts"
import type { Change } from "../../src/core/model/change.ts"
import { loseReply, setup } from "./setup.ts"

/** Rejects every batch with a change that `when` selects, as a store does that cannot write a value. */
const rejectContent = (store: Store, when: (change: Change) => boolean): void => {
  const real = store.advance
  store.advance = (batch) => (batch.changes.some(when) ? Promise.reject(new InvalidValue("value out of range")) : real(batch))
}

const ONE = "name: one\ntasks: { a: { command: x } }"

describe("a result that cannot be processed", () => {
  it("fails the attempt, which uses a retry", async () => {
    let calls = 0
    const observer = {
      attemptEnded: () => {
        calls += 1
        throw new Error("the observer is broken")
      },
    }
    const fixture = await setup({}, { observer })
    const runId = await fixture.trigger("name: one\ntasks: { a: { command: x, retries: 2 } }")
    await fixture.ended(runId)
    expect(await fixture.task(runId, "a")).toMatchObject({
      status: "failed",
      attempt: 3,
      error: "its result could not be processed: the observer is broken",
    })
    expect(calls).toBe(3)
  })
})

describe("a lost reply of the store", () => {
  it("does not hide the end of a run from those who await it", async () => {
    const fixture = await setup()
    const lost = loseReply(fixture.store, (_, { closed }) => closed.length > 0)
    const runId = await fixture.trigger(ONE)
    expect(await fixture.ended(runId)).toMatchObject({ status: "success" })
    expect(lost()).toBe(true)
  })

  it("does not stop a task whose start was in the batch", async () => {
    const fixture = await setup({ a: async (_, { sleep }) => (await sleep(60_000), "done") })
    const lost = loseReply(fixture.store, ({ changes }) => changes.some(({ kind }) => kind === "started"))
    const runId = await fixture.trigger(ONE)
    await fixture.ended(runId)
    expect(lost()).toBe(true)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "success", attempt: 1, output: { inline: "done" } })
    expect(fixture.launched).toHaveLength(1)
  })

  it("does not hide the end of a child run from the task that waits for it", async () => {
    const fixture = await setup()
    const { store } = fixture
    await fixture.deploy("name: child\ntasks: { nowhere: { command: x, labels: [none] } }")
    const real = store.advance
    store.advance = async (batch) => {
      const wait = batch.changes.find((change) => change.kind === "wait" && change.delayMs === null)
      const [child] = wait === undefined ? [] : await store.listRuns({ workflow: "child", limit: 1 })
      if (child !== undefined) await store.requestCancel(child.id, "cancel")
      return await real(batch)
    }
    const lost = loseReply(store, (_, { gateClaims: gates, closed }) => gates.length > 0 && closed.length > 0)
    const runId = await fixture.trigger("name: parent\ntasks: { sub: { executor: workflow, workflow: child } }")
    await fixture.ended(runId)
    expect(lost()).toBe(true)
    expect(await fixture.task(runId, "sub")).toMatchObject({
      status: "cancelled",
      error: expect.stringContaining("was cancelled"),
    })
  })

  it("releases the claims of that call, and the task then runs once", async () => {
    const fixture = await setup()
    const lost = loseReply(fixture.store, (_, { claims }) => claims.length > 0)
    const runId = await fixture.trigger(ONE)
    await fixture.ended(runId)
    expect(lost()).toBe(true)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "success", attempt: 1 })
    expect(fixture.launched).toHaveLength(1)
  })

  it("does not leave a new run pending", async () => {
    const fixture = await setup()
    await fixture.pass(1000)
    const real = fixture.store.createRuns
    fixture.store.createRuns = async (runs) => {
      await real(runs)
      throw new Error("the connection is gone")
    }
    await expect(fixture.trigger(ONE)).rejects.toThrow("the connection is gone")
    await fixture.pass(1000)
    expect(await fixture.store.listRuns({ limit: 10 })).toMatchObject([{ status: "success" }])
  })
})

describe("an engine that stops", () => {
  const refuse = (): Promise<never> => Promise.reject(new Error("the disk is full"))

  it("stops when the store rejects every batch, and logs what is left", async () => {
    const logged: [object, string][] = []
    const log = { info: () => {}, warn: () => {}, error: (fields: object, text: string) => void logged.push([fields, text]) }
    const fixture = await setup({ a: (_, { untilStopped }) => untilStopped() }, { log })
    const real = { advance: fixture.store.advance, deregisterHolder: fixture.store.deregisterHolder }
    const runId = await fixture.trigger(ONE)
    await fixture.pass(1000)
    Object.assign(fixture.store, { advance: refuse, deregisterHolder: refuse })
    const startedAt = fixture.clock.now()
    await fixture.until(fixture.engine.stop({ drainMs: 5000 }))
    expect(fixture.clock.now() - startedAt).toBeLessThan(20_000)
    expect(logged).toEqual([
      [{ attempts: 0, changes: 1 }, expect.stringContaining("shutting down with uncommitted work")],
      [{ error: "Error: the disk is full" }, expect.stringContaining("failed to deregister")],
    ])
    Object.assign(fixture.store, real)
    expect(await fixture.task(runId, "a")).toMatchObject({ status: "running" })
  })

  it("stops when the store does not reply", async () => {
    const fixture = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const real = { advance: fixture.store.advance, deregisterHolder: fixture.store.deregisterHolder }
    await fixture.trigger(ONE)
    await fixture.pass(1000)
    const silent = (): Promise<never> => new Promise(() => {})
    Object.assign(fixture.store, { advance: silent, deregisterHolder: silent })
    const startedAt = fixture.clock.now()
    await fixture.until(fixture.engine.stop())
    expect(fixture.clock.now() - startedAt).toBeLessThan(20_000)
    Object.assign(fixture.store, real)
  })
})

describe("an attempt", () => {
  it("stays a success when its cache key cannot be evaluated any more", async () => {
    let evaluations = 0
    const evaluate: typeof inlineEvaluator.evaluate = (source, scope) => {
      if (++evaluations > 1) throw new Error("the evaluator went away")
      return inlineEvaluator.evaluate(source, scope)
    }
    const fixture = await setup({ a: () => "done" }, { evaluator: { ...inlineEvaluator, evaluate } })
    const runId = await fixture.trigger("name: c\ntasks: { a: { command: x, cache: { key: run.workflow } } }")
    expect(await fixture.ended(runId)).toMatchObject({ status: "success" })
    expect(evaluations).toBe(2)
    expect(await fixture.task(runId, "a")).toMatchObject({ attempt: 1, output: { inline: "done" } })
  })

  it("fails when its executor throws", async () => {
    const process: Executor = { name: "process", launch: () => Promise.reject(new Error("a bug")) }
    const fixture = await setup({}, { executors: new Map([["process", process]]) })
    const runId = await fixture.trigger(ONE)
    expect(await fixture.ended(runId)).toMatchObject({ status: "failed" })
    expect(await fixture.task(runId, "a")).toMatchObject({ lastAttemptState: "failed", error: "could not run the task: a bug" })
  })
})

describe("an engine that cannot start", () => {
  it("stops the executors that it has started, so that the process can exit", async () => {
    const { store } = await setup()
    const calls: string[] = []
    const executor: Executor = {
      name: "process",
      start: () => Promise.resolve(void calls.push("start")),
      stop: () => Promise.resolve(void calls.push("stop")),
      launch: () => Promise.reject(new Error("nothing is launched")),
    }
    const broken = { ...store, getSecret: () => Promise.reject(new Error("no such table")) }
    await expect(setup({}, { store: broken, executors: new Map([["process", executor]]) })).rejects.toThrow("no such table")
    expect(calls).toEqual(["start", "stop"])
  })
})

describe("a change that the store cannot write", () => {
  const isBad = (change: Change): boolean =>
    change.kind === "finish" && JSON.stringify(change.result.output ?? null).includes("bad")

  it("fails its task only; the other changes of its batch are committed", async () => {
    const fixture = await setup({ each: ({ parallelIndex }) => (parallelIndex === 4 ? "bad" : "good") })
    rejectContent(fixture.store, isBad)
    const runId = await fixture.trigger(
      `name: w
tasks:
  each: { foreach: [1, 2, 3, 4, 5, 6, 7, 8], command: x}
  last: { depends_on: [each], run_when: all_done, command: x }`,
    )
    expect(await fixture.ended(runId)).toMatchObject({ status: "failed" })
    const each = (await fixture.tasks(runId)).filter(({ name, path }) => name === "each" && path !== "")
    expect(each.filter(({ status }) => status === "success")).toHaveLength(7)
    expect(each.find(({ status }) => status === "failed")).toMatchObject({
      path: "4",
      error: "Ork could not store its result: value out of range",
    })
    expect(await fixture.task(runId, "last")).toMatchObject({ status: "success" })
  })

  it("fails the task when it is a decision of the gate", async () => {
    const fixture = await setup()
    rejectContent(fixture.store, ({ kind }) => kind === "enqueue")
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x, if: 'true' } }")
    expect(await fixture.ended(runId)).toMatchObject({ status: "failed" })
    expect((await fixture.task(runId, "a")).error).toContain("value out of range")
  })

  it("is dropped when it only reports a start", async () => {
    const fixture = await setup({ a: async (_, { sleep }) => (await sleep(60_000), "done") })
    rejectContent(fixture.store, ({ kind }) => kind === "started")
    const runId = await fixture.trigger(ONE)
    expect(await fixture.ended(runId)).toMatchObject({ status: "success" })
  })

  it("fails nothing while the store rejects batches without changes too", async () => {
    const fixture = await setup()
    const real = fixture.store.advance
    let failures = 5
    fixture.store.advance = (batch) => (failures-- > 0 ? Promise.reject(new InvalidValue("a bug")) : real(batch))
    const runId = await fixture.trigger(ONE)
    expect(await fixture.ended(runId)).toMatchObject({ status: "success" })
  })
})

describe("a store that rejects changes for another reason than their content", () => {
  it.each(["finish", "enqueue"])("gets them again, and no task fails (%s)", async (rejected) => {
    const fixture = await setup({ a: () => "done" })
    const real = fixture.store.advance
    let failures = 5
    fixture.store.advance = (batch) =>
      batch.changes.some(({ kind }) => kind === rejected) && failures-- > 0
        ? Promise.reject(new Error("permission denied for table tasks"))
        : real(batch)
    const runId = await fixture.trigger("name: w\ntasks: { a: { command: x, if: 'true' } }")
    expect(await fixture.ended(runId)).toMatchObject({ status: "success" })
    expect(await fixture.task(runId, "a")).toMatchObject({ attempt: 1, output: { inline: "done" } })
    expect(failures).toBeLessThan(0)
  })
})

describe("an engine that cannot commit", () => {
  it("reports for how long", async () => {
    const fixture = await setup()
    await fixture.pass(1000)
    expect(fixture.engine.stalledMs).toBe(0)
    const real = fixture.store.advance
    let away = true
    fixture.store.advance = (batch) => (away ? Promise.reject(new StoreUnavailable("here", "gone")) : real(batch))
    const runId = await fixture.trigger(ONE)
    await fixture.pass(60_000)
    expect(fixture.engine.stalledMs).toBeGreaterThan(59_000)
    away = false
    await fixture.ended(runId)
    expect(fixture.engine.stalledMs).toBe(0)
  })
})
