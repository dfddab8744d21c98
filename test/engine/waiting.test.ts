import { describe, expect, it } from "vitest"
import { fail, setup } from "./setup.ts"

const HOUR = 3_600_000

describe("a task that sleeps", () => {
  it("uses no slot, and finishes after its duration", async () => {
    const fixture = await setup({}, { concurrency: 1 })
    const runId = await fixture.trigger(`
name: nap
tasks:
  nap: { executor: sleep, duration: 1h }
  other: { command: work }
  after: { depends_on: [nap], command: work }`)
    const startedAt = fixture.clock.now()
    await fixture.pass(1000)
    expect(await fixture.statuses(runId)).toEqual({ nap: "running", other: "success", after: "pending" })
    await fixture.ended(runId)
    expect(fixture.clock.now() - startedAt).toBeGreaterThanOrEqual(HOUR)
    expect(fixture.clock.now() - startedAt).toBeLessThan(HOUR + 1000)
    expect(await fixture.task(runId, "nap")).toMatchObject({ status: "success", attempt: 1 })
  })

  it("reads its duration from an expression, and fails with a message for an invalid one", async () => {
    const fixture = await setup()
    const flow = "name: nap\nparams: { long: 5s }\ntasks: { nap: { executor: sleep, duration: '${{ params.long }}' } }"
    const startedAt = fixture.clock.now()
    await fixture.ended(await fixture.trigger(flow))
    expect(fixture.clock.now() - startedAt).toBeGreaterThanOrEqual(5000)
    const runId = await fixture.trigger(flow, { long: "soon" })
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect((await fixture.task(runId, "nap")).error).toMatch(/^duration is "soon", but must be seconds or a text/)
  })

  it("can sleep until a point in time", async () => {
    const fixture = await setup()
    const until = new Date(fixture.clock.now() + 90_000).toISOString()
    await fixture.ended(await fixture.trigger(`name: nap\ntasks: { nap: { executor: sleep, until: "${until}" } }`))
    expect(fixture.clock.now()).toBeGreaterThanOrEqual(Date.parse(until))
  })

  it("is cancelled at once with its run", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: nap\ntasks: { nap: { executor: sleep, duration: 1d } }")
    await fixture.pass(1000)
    const startedAt = fixture.clock.now()
    await fixture.engine.cancel(runId)
    expect((await fixture.ended(runId)).status).toBe("cancelled")
    expect(fixture.clock.now() - startedAt).toBeLessThan(1000)
    expect((await fixture.task(runId, "nap")).status).toBe("cancelled")
  })

  it("fails at its timeout", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: nap\ntasks: { nap: { executor: sleep, duration: 1d, timeout: 10s } }")
    await fixture.ended(runId)
    expect(await fixture.task(runId, "nap")).toMatchObject({ status: "failed", error: "timed out after 10s" })
  })

  it("succeeds when its duration passed before its timeout, even if it is resumed late", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: nap\ntasks: { nap: { executor: sleep, duration: 5s, timeout: 10s } }")
    await fixture.pass(1000)
    await fixture.engine.setPaused(runId, true)
    await fixture.pass(60_000)
    await fixture.engine.setPaused(runId, false)
    expect((await fixture.ended(runId)).status).toBe("success")
  })

  it("can be a fan-out", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(
      "name: nap\ntasks: { nap: { executor: sleep, foreach: [1, 2], duration: '${{ item }}' } }",
    )
    await fixture.ended(runId)
    expect(await fixture.statuses(runId)).toEqual({ "nap.0": "success", "nap.1": "success" })
  })
})

const ASK = `
name: ask
tasks:
  ask: { executor: approval, message: "Ship \${{ run.workflow }}?", retries: 2 }
  ship: { depends_on: [ask], command: work }`

const decided = { path: "", comment: "fine", by: "key ops" }

describe("a task that waits for approval", () => {
  it("shows its message and waits without a timeout", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(ASK)
    await fixture.pass(1000)
    expect(await fixture.task(runId, "ask")).toMatchObject({
      status: "running",
      waitingOn: { kind: "approval", message: "Ship ask?" },
      resumeAt: null,
    })
    expect(fixture.events.at(-1)).toMatchObject({
      task: "ask",
      status: "running",
      waiting: { kind: "approval", message: "Ship ask?", until: null },
    })
  })

  it("succeeds when it is approved, with the user and the time in its output", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(ASK)
    await fixture.pass(1000)
    await fixture.until(fixture.engine.externalSignals.approval({ runId, name: "ask", approved: true, ...decided }))
    expect((await fixture.ended(runId)).status).toBe("success")
    const decision = { approved: true, comment: "fine", by: "key ops", at: expect.any(String) as string }
    expect((await fixture.task(runId, "ask")).output).toEqual({ inline: decision })
    expect(fixture.inputs("ship")).toEqual([{ ask: decision }])
  })

  it("fails with the comment when it is rejected, and is not retried", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(ASK)
    await fixture.pass(1000)
    await fixture.until(
      fixture.engine.externalSignals.approval({ runId, name: "ask", approved: false, ...decided, comment: "not today" }),
    )
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect(await fixture.task(runId, "ask")).toMatchObject({ status: "failed", error: "not today", attempt: 1 })
    expect((await fixture.task(runId, "ship")).status).toBe("skipped")
  })

  it("accepts one decision", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(ASK)
    await fixture.pass(1000)
    const say = (approved: boolean): Promise<void> =>
      fixture.engine.externalSignals.approval({ runId, name: "ask", approved, ...decided })
    await fixture.until(say(true))
    await expect(say(false)).rejects.toThrow(`task ask of run ${runId} does not wait for approval: it has ended as success`)
    await expect(fixture.engine.externalSignals.approval({ runId, name: "ship", approved: true, ...decided })).rejects.toThrow(
      "does not wait",
    )
    await expect(fixture.engine.externalSignals.approval({ runId, name: "nope", approved: true, ...decided })).rejects.toThrow(
      "there is no task",
    )
  })

  it.each([
    ["approve", "success"],
    ["reject", "failed"],
  ])("takes its default when nobody decides in time: %s", async (choice, status) => {
    const fixture = await setup()
    const runId = await fixture.trigger(
      `name: ask\ntasks: { ask: { executor: approval, timeout: 2h, default: ${choice}, retries: 3 } }`,
    )
    const startedAt = fixture.clock.now()
    expect((await fixture.ended(runId)).status).toBe(status)
    expect(fixture.clock.now() - startedAt).toBeGreaterThanOrEqual(2 * HOUR)
    expect((await fixture.task(runId, "ask")).output).toMatchObject({
      inline: { approved: choice === "approve", by: null, comment: "nobody answered within 2h" },
    })
    expect((await fixture.task(runId, "ask")).attempt).toBe(1)
  })

  it("without a default times out, and is retried", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: ask\ntasks: { ask: { executor: approval, timeout: 1m, retries: 1 } }")
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect(await fixture.task(runId, "ask")).toMatchObject({
      attempt: 2,
      lastAttemptState: "timeout",
      error: "timed out after 1m",
    })
  })

  it("is cancelled with its run", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger(ASK)
    await fixture.pass(1000)
    await fixture.engine.cancel(runId)
    expect((await fixture.ended(runId)).status).toBe("cancelled")
    expect(await fixture.statuses(runId)).toEqual({ ask: "cancelled", ship: "cancelled" })
  })
})

describe("a sub-workflow task", () => {
  const CHILD = `
name: child
params: { n: { type: integer, required: true } }
tasks:
  double: { command: work, input: { n: "\${{ params.n }}" } }
  each: { depends_on: [double], foreach: [1, 2], command: work }`
  const PARENT = `
name: parent
tasks:
  sub: { executor: workflow, workflow: child, input: { n: 21 } }
  after: { depends_on: [sub], command: work }`

  const family = async (scripts: Parameters<typeof setup>[0], text = PARENT, options: Parameters<typeof setup>[1] = {}) => {
    const fixture = await setup(scripts, options)
    await fixture.deploy(CHILD)
    const runId = await fixture.trigger(text)
    const child = async () => (await fixture.store.listRuns({ workflow: "child", limit: 9 }))[0]!
    return { fixture, runId, child }
  }

  it("runs the workflow with its input as params, and has the outputs by task name", async () => {
    const double = ({ input }: { input: unknown }) => (input as { n: number }).n * 2
    const { fixture, runId, child } = await family({ double, each: ({ input }) => (input as { item: number }).item })
    expect((await fixture.ended(runId)).status).toBe("success")
    expect((await fixture.task(runId, "sub")).output).toEqual({ inline: { double: 42, each: [1, 2] } })
    expect(await child()).toMatchObject({ trigger: "workflow", params: { n: 21 }, parent: { runId, task: "sub" } })
    expect(fixture.inputs("after")).toEqual([{ sub: { double: 42, each: [1, 2] } }])
  })

  it("uses no slot while the sub-workflow runs", async () => {
    const { fixture, runId } = await family({}, PARENT, { concurrency: 1 })
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(fixture.maxLive()).toBe(1)
  })

  it("fails with its run, and a retry starts a new run", async () => {
    let calls = 0
    const { fixture, runId } = await family(
      { double: () => (calls++ === 0 ? fail() : 1) },
      PARENT.replace("workflow: child,", "workflow: child, retries: 1, retry: { base_delay: 1s },"),
    )
    expect((await fixture.ended(runId)).status).toBe("success")
    expect(await fixture.store.listRuns({ workflow: "child", limit: 9 })).toHaveLength(2)
    const [first] = await fixture.store.listAttempts((await fixture.task(runId, "sub")).row)
    expect(first!.error).toMatch(/^run \S+ of workflow child failed: task double failed$/)
  })

  it("is cancelled with its run, and cancels it", async () => {
    const forever = { double: (_: unknown, { untilStopped }: { untilStopped(): Promise<never> }) => untilStopped() }
    const down = await family(forever)
    await down.fixture.pass(1000)
    await down.fixture.engine.cancel(down.runId)
    expect((await down.fixture.ended(down.runId)).status).toBe("cancelled")
    expect((await down.child()).status).toBe("cancelled")
    const up = await family(forever)
    await up.fixture.pass(1000)
    await up.fixture.engine.cancel((await up.child()).id)
    expect((await up.fixture.ended(up.runId)).status).toBe("success")
    expect(await up.fixture.statuses(up.runId)).toMatchObject({ sub: "cancelled" })
  })

  it("cancels its run at its timeout", async () => {
    const { fixture, runId, child } = await family(
      { double: (_, { untilStopped }) => untilStopped() },
      PARENT.replace("workflow: child,", "workflow: child, timeout: 1m,"),
    )
    expect((await fixture.ended(runId)).status).toBe("failed")
    expect((await fixture.task(runId, "sub")).error).toBe("timed out after 1m")
    await fixture.until(fixture.engine.waitForRun((await child()).id))
    expect((await child()).status).toBe("cancelled")
  })

  it.each([
    ["workflow: nobody", 'there is no workflow "nobody": deploy it'],
    ["workflow: child, input: { n: x }", 'the input does not fit workflow child: params.n must be a whole number, but is "x"'],
  ])("that cannot be started fails with a message: %s", async (fields, message) => {
    const { fixture, runId } = await family({}, `name: parent\ntasks: { sub: { executor: workflow, ${fields} } }`)
    await fixture.ended(runId)
    expect(await fixture.task(runId, "sub")).toMatchObject({ status: "failed", error: message })
  })

  it("may start its own workflow under max_active_runs, directly and through another workflow", async () => {
    const fixture = await setup({ leaf: () => "ok" })
    const text = (name: string, next: string) => `name: ${name}
max_active_runs: 1
params: { depth: { type: integer, default: 2 } }
tasks:
  leaf: { command: x }
  sub: { executor: workflow, workflow: ${next}, if: "params.depth > 0", input: { depth: "\${{ params.depth - 1 }}" } }`
    await fixture.ended(await fixture.trigger(text("pong", "ping").replace("default: 2", "default: 0")))
    await fixture.trigger(text("again", "again"))
    await fixture.trigger(text("ping", "pong"))
    await fixture.pass(60_000)
    const runs = await fixture.store.listRuns({ limit: 99 })
    expect(runs.map(({ status }) => status)).toEqual(runs.map(() => "success"))
    expect(runs).toHaveLength(7)
  })

  it("can be nested 8 deep", async () => {
    const fixture = await setup()
    const runId = await fixture.trigger("name: again\ntasks: { sub: { executor: workflow, workflow: again } }")
    expect((await fixture.ended(runId)).status).toBe("failed")
    const runs = await fixture.store.listRuns({ limit: 99 })
    expect(runs).toHaveLength(9)
    const deepest = runs.find((run) => run.trigger === "workflow" && runs.every(({ parent }) => parent?.runId !== run.id))!
    expect((await fixture.task(deepest.id, "sub")).error).toBe(
      "workflow again is not started: sub-workflows are nested 8 deep at most",
    )
  })
})
