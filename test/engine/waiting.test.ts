import { BLOCKED_REQUEST } from "../../src/core/model/ports.ts"
import type { Assignment } from "../../src/executors/executor.ts"
import { describe, expect, it } from "vitest"
import { fail, setup } from "./world.ts"

const HOUR = 3_600_000

describe("a task that sleeps", () => {
  it("holds no slot, and goes on when its time is over", async () => {
    const world = await setup({}, { concurrency: 1 })
    const runId = await world.trigger(`
name: nap
tasks:
  nap: { executor: sleep, duration: 1h }
  other: { command: work }
  after: { depends_on: [nap], command: work }`)
    const begun = world.clock.now()
    await world.pass(1000)
    expect(await world.statuses(runId)).toEqual({ nap: "running", other: "success", after: "pending" })
    await world.ended(runId)
    expect(world.clock.now() - begun).toBeGreaterThanOrEqual(HOUR)
    expect(world.clock.now() - begun).toBeLessThan(HOUR + 1000)
    expect(await world.task(runId, "nap")).toMatchObject({ status: "success", attempt: 1 })
  })

  it("takes its duration from an expression, and fails naming one that is none", async () => {
    const world = await setup()
    const flow = "name: nap\nparams: { long: 5s }\ntasks: { nap: { executor: sleep, duration: '${{ params.long }}' } }"
    const begun = world.clock.now()
    await world.ended(await world.trigger(flow))
    expect(world.clock.now() - begun).toBeGreaterThanOrEqual(5000)
    const runId = await world.trigger(flow, { long: "soon" })
    expect((await world.ended(runId)).status).toBe("failed")
    expect((await world.task(runId, "nap")).error).toMatch(/^duration is "soon", but must be seconds or a text/)
  })

  it("sleeps until an instant", async () => {
    const world = await setup()
    const until = new Date(world.clock.now() + 90_000).toISOString()
    await world.ended(await world.trigger(`name: nap\ntasks: { nap: { executor: sleep, until: "${until}" } }`))
    expect(world.clock.now()).toBeGreaterThanOrEqual(Date.parse(until))
  })

  it("ends at once when its run is cancelled", async () => {
    const world = await setup()
    const runId = await world.trigger("name: nap\ntasks: { nap: { executor: sleep, duration: 1d } }")
    await world.pass(1000)
    const begun = world.clock.now()
    await world.engine.cancel(runId)
    expect((await world.ended(runId)).status).toBe("cancelled")
    expect(world.clock.now() - begun).toBeLessThan(1000)
    expect((await world.task(runId, "nap")).status).toBe("cancelled")
  })

  it("is bounded by its timeout", async () => {
    const world = await setup()
    const runId = await world.trigger("name: nap\ntasks: { nap: { executor: sleep, duration: 1d, timeout: 10s } }")
    await world.ended(runId)
    expect(await world.task(runId, "nap")).toMatchObject({ status: "failed", error: "timed out after 10s" })
  })

  it("that was over in time is no timeout, however late somebody looks", async () => {
    const world = await setup()
    const runId = await world.trigger("name: nap\ntasks: { nap: { executor: sleep, duration: 5s, timeout: 10s } }")
    await world.pass(1000)
    await world.engine.pause(runId, true)
    await world.pass(60_000)
    await world.engine.pause(runId, false)
    expect((await world.ended(runId)).status).toBe("success")
  })

  it("fans out", async () => {
    const world = await setup()
    const runId = await world.trigger(
      "name: nap\ntasks: { nap: { executor: sleep, foreach: [1, 2], duration: '${{ item }}' } }",
    )
    await world.ended(runId)
    expect(await world.statuses(runId)).toEqual({ "nap.0": "success", "nap.1": "success" })
  })
})

const ASK = `
name: ask
tasks:
  ask: { executor: approval, message: "Ship \${{ run.workflow }}?", retries: 2 }
  ship: { depends_on: [ask], command: work }`

const answer = { path: "", comment: "fine", by: "key ops" }

describe("a task that waits for approval", () => {
  it("says what it asks, and waits for ever", async () => {
    const world = await setup()
    const runId = await world.trigger(ASK)
    await world.pass(1000)
    expect(await world.task(runId, "ask")).toMatchObject({
      status: "running",
      waitingOn: { kind: "approval", message: "Ship ask?" },
      resumeAt: null,
    })
    expect(world.events.at(-1)).toMatchObject({
      task: "ask",
      status: "running",
      waiting: { kind: "approval", message: "Ship ask?", until: null },
    })
  })

  it("goes on when it is approved, with who and when", async () => {
    const world = await setup()
    const runId = await world.trigger(ASK)
    await world.pass(1000)
    await world.until(world.engine.externalSignals.approval({ runId, name: "ask", approved: true, ...answer }))
    expect((await world.ended(runId)).status).toBe("success")
    const said = { approved: true, comment: "fine", by: "key ops", at: expect.any(String) as string }
    expect((await world.task(runId, "ask")).output).toEqual({ inline: said })
    expect(world.inputs("ship")).toEqual([{ ask: said }])
  })

  it("fails with the comment when it is rejected, and is not asked again", async () => {
    const world = await setup()
    const runId = await world.trigger(ASK)
    await world.pass(1000)
    await world.until(
      world.engine.externalSignals.approval({ runId, name: "ask", approved: false, ...answer, comment: "not today" }),
    )
    expect((await world.ended(runId)).status).toBe("failed")
    expect(await world.task(runId, "ask")).toMatchObject({ status: "failed", error: "not today", attempt: 1 })
    expect((await world.task(runId, "ship")).status).toBe("skipped")
  })

  it("takes one answer", async () => {
    const world = await setup()
    const runId = await world.trigger(ASK)
    await world.pass(1000)
    const say = (approved: boolean): Promise<void> =>
      world.engine.externalSignals.approval({ runId, name: "ask", approved, ...answer })
    await world.until(say(true))
    await expect(say(false)).rejects.toThrow(`task ask of run ${runId} does not wait for approval: it has ended as success`)
    await expect(world.engine.externalSignals.approval({ runId, name: "ship", approved: true, ...answer })).rejects.toThrow(
      "does not wait",
    )
    await expect(world.engine.externalSignals.approval({ runId, name: "nope", approved: true, ...answer })).rejects.toThrow(
      "there is no task",
    )
  })

  it.each([
    ["approve", "success"],
    ["reject", "failed"],
  ])("that nobody answers in time is decided by its default: %s", async (choice, status) => {
    const world = await setup()
    const runId = await world.trigger(
      `name: ask\ntasks: { ask: { executor: approval, timeout: 2h, default: ${choice}, retries: 3 } }`,
    )
    const begun = world.clock.now()
    expect((await world.ended(runId)).status).toBe(status)
    expect(world.clock.now() - begun).toBeGreaterThanOrEqual(2 * HOUR)
    expect((await world.task(runId, "ask")).output).toMatchObject({
      inline: { approved: choice === "approve", by: null, comment: "nobody answered within 2h" },
    })
    expect((await world.task(runId, "ask")).attempt).toBe(1)
  })

  it("without a default times out, and is asked again while it has retries", async () => {
    const world = await setup()
    const runId = await world.trigger("name: ask\ntasks: { ask: { executor: approval, timeout: 1m, retries: 1 } }")
    expect((await world.ended(runId)).status).toBe("failed")
    expect(await world.task(runId, "ask")).toMatchObject({ attempt: 2, outcome: "timeout", error: "timed out after 1m" })
  })

  it("is gone when its run is cancelled", async () => {
    const world = await setup()
    const runId = await world.trigger(ASK)
    await world.pass(1000)
    await world.engine.cancel(runId)
    expect((await world.ended(runId)).status).toBe("cancelled")
    expect(await world.statuses(runId)).toEqual({ ask: "cancelled", ship: "cancelled" })
  })
})

const tokenOf = ({ callback }: Assignment): string => callback!()["ORK_CALLBACK_TOKEN"]!

describe("deferred work", () => {
  it("gives its slot back until a callback ends it, once", async () => {
    const world = await setup({ a: () => ({ ork_defer: { callback: {} } }) }, { concurrency: 1 })
    const runId = await world.trigger("name: far\ntasks: { a: { command: x }, b: { command: y }, c: { command: z } }")
    await world.pass(1000)
    expect(await world.statuses(runId)).toEqual({ a: "running", b: "success", c: "success" })
    const token = tokenOf(world.launched.find(({ task }) => task === "a")!)
    await world.until(world.engine.externalSignals.callback(token, { status: "success", output: [1] }))
    expect((await world.ended(runId)).status).toBe("success")
    expect((await world.task(runId, "a")).output).toEqual({ inline: [1] })
    await expect(world.engine.externalSignals.callback(token, { status: "success" })).rejects.toThrow("has ended already")
    await expect(world.engine.externalSignals.callback(token.replace(/.$/, "x"), { status: "success" })).rejects.toThrow(
      "no such",
    )
  })

  it("that fails elsewhere is tried again under a new token", async () => {
    const world = await setup({ a: () => ({ ork_defer: { callback: {} } }) })
    const runId = await world.trigger("name: far\ntasks: { a: { command: x, retries: 1, retry: { base_delay: 1s } } }")
    await world.pass(500)
    const tokens = (): string[] => world.launched.map(tokenOf)
    await world.until(world.engine.externalSignals.callback(tokens()[0]!, { status: "failed", error: "disk full" }))
    await world.pass(3000)
    expect(await world.task(runId, "a")).toMatchObject({ status: "running", attempt: 2 })
    expect(new Set(tokens()).size).toBe(2)
    await world.until(world.engine.externalSignals.callback(tokens()[1]!, { status: "failed", error: "disk full" }))
    await world.ended(runId)
    expect(await world.task(runId, "a")).toMatchObject({ status: "failed", error: "disk full" })
  })

  it("is not called back before it waits", async () => {
    const world = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await world.trigger("name: far\ntasks: { a: { command: x } }")
    await world.pass(1000)
    const token = tokenOf(world.launched[0]!)
    await expect(world.engine.externalSignals.callback(token, { status: "success" })).rejects.toThrow(
      "not waiting yet; try again",
    )
    await world.engine.cancel(runId)
    await world.ended(runId)
  })

  it("has no timeout by default, and the one that somebody set", async () => {
    const scripts = { a: () => ({ ork_defer: { callback: {} } }), b: () => ({ ork_defer: { callback: { timeout: "3h" } } }) }
    const world = await setup(scripts)
    const runId = await world.trigger("name: far\ntasks: { a: { command: x, timeout: 4h }, b: { command: x } }")
    await world.pass(2 * HOUR)
    expect(await world.statuses(runId)).toEqual({ a: "running", b: "running" })
    await world.ended(runId)
    expect((await world.task(runId, "a")).error).toBe("timed out after 4h")
    expect((await world.task(runId, "b")).error).toBe("timed out after 3h")
  })

  const POLL = { url: "https://jobs.test/7", every: "10s", done_when: "response.body.state == 'done'" }

  const polled = async (answers: (number | { status: number; body: unknown })[], poll: object = {}, task = "") => {
    const asked: { url: string; headers: unknown }[] = []
    const world = await setup(
      { a: () => ({ ork_defer: { poll: { ...POLL, ...poll } } }) },
      {
        fetch: async (url, { headers }) => {
          asked.push({ url, headers })
          const next = answers.shift()
          if (next === undefined) throw new Error("connection refused")
          const { status, body } = typeof next === "number" ? { status: next, body: "busy" } : next
          return new Response(JSON.stringify(body), { status })
        },
      },
    )
    const runId = await world.trigger(`name: far\ntasks: { a: { command: x ${task} } }`)
    return { world, runId, asked }
  }

  it("is asked for until it is done, and gives the body", async () => {
    const { world, runId, asked } = await polled(
      [{ status: 200, body: { state: "queued" } }, 503, { status: 200, body: { state: "done", rows: 3 } }],
      { headers: { authorization: { secret: "API_TOKEN" } } },
    )
    const begun = world.clock.now()
    expect((await world.ended(runId)).status).toBe("success")
    expect((await world.task(runId, "a")).output).toEqual({ inline: { state: "done", rows: 3 } })
    expect(asked).toHaveLength(3)
    expect(asked[0]!.headers).toEqual({ authorization: "s3cret" })
    expect(world.clock.now() - begun).toBeGreaterThanOrEqual(40_000)
  })

  it("gives what its output says", async () => {
    const { world, runId } = await polled([{ status: 200, body: { state: "done", rows: 3 } }], { output: "response.body.rows" })
    await world.ended(runId)
    expect((await world.task(runId, "a")).output).toEqual({ inline: 3 })
  })

  it("fails when its condition says so", async () => {
    const { world, runId } = await polled([{ status: 404, body: {} }], { fail_when: "response.status == 404" })
    await world.ended(runId)
    expect(await world.task(runId, "a")).toMatchObject({
      status: "failed",
      error: "fail_when holds: response.status == 404 (status 404)",
    })
  })

  it("asks again, less often, while nobody answers, until its time is over", async () => {
    const { world, runId, asked } = await polled([], { timeout: "10m" })
    await world.ended(runId)
    expect(await world.task(runId, "a")).toMatchObject({ status: "failed", error: "timed out after 10m" })
    expect(asked.length).toBeGreaterThan(3)
    expect(asked.length).toBeLessThan(10)
  })

  it("is asked for again when its secret does not come, and the end of its time is the end of it", async () => {
    const world = await setup(
      { a: () => ({ ork_defer: { poll: { ...POLL, headers: { authorization: { secret: "SLOW" } }, timeout: "10m" } } }) },
      { secret: () => new Promise<never>(() => {}), fetch: () => Promise.reject(new Error("never asked")) },
    )
    const runId = await world.trigger("name: far\ntasks: { a: { command: x } }")
    await world.ended(runId)
    expect((await world.task(runId, "a")).error).toBe("timed out after 10m")
  })

  it("tells the log who did not answer, and nothing of the address that could be a secret", async () => {
    const told: object[] = []
    const world = await setup(
      {
        a: () => ({ ork_defer: { poll: { ...POLL, url: "https://me:word@jobs.test/hook/s3cret?key=s3cret", timeout: "1m" } } }),
      },
      {
        fetch: () => Promise.reject(new Error("connection refused")),
        log: { info: () => {}, warn: (fields, message) => told.push({ ...fields, message }), error: () => {} },
      },
    )
    const runId = await world.trigger("name: far\ntasks: { a: { command: x } }")
    await world.ended(runId)
    expect(told[0]).toEqual({
      run: runId,
      service: "https://jobs.test",
      error: "connection refused",
      message: "a poll was not answered",
    })
  })

  it("fails at once when its address may not be reached", async () => {
    const world = await setup(
      { a: () => ({ ork_defer: { poll: POLL } }) },
      { fetch: () => Promise.reject(Object.assign(new Error("no way there"), { name: BLOCKED_REQUEST })) },
    )
    const runId = await world.trigger("name: far\ntasks: { a: { command: x, retries: 3 } }")
    await world.ended(runId)
    expect(await world.task(runId, "a")).toMatchObject({ status: "failed", error: "no way there", attempt: 1 })
  })

  it("fails when the expression does not fit the answer", async () => {
    const { world, runId } = await polled([{ status: 200, body: { status: "done" } }])
    await world.ended(runId)
    expect((await world.task(runId, "a")).error).toContain("response.body")
  })

  it("checks the output against its schema in the end", async () => {
    const { world, runId } = await polled(
      [{ status: 200, body: { state: "done" } }],
      {},
      ", output: { type: object, required: [rows] }",
    )
    await world.ended(runId)
    expect((await world.task(runId, "a")).error).toContain("does not fit its schema")
  })

  it.each([
    [{ poll: {} }, "ork_defer.poll needs url"],
    [{ poll: { ...POLL, evry: 3 } }, 'ork_defer.poll has no field "evry"; did you mean every?'],
    [{ poll: { ...POLL, done_when: "params.x" } }, "ork_defer.poll.done_when knows `response` alone, not params"],
    [{ poll: { ...POLL, url: "file:///etc/passwd" } }, "ork_defer.poll.url must begin with http:// or https://"],
    [{}, "ork_defer needs either poll or callback"],
  ])("that cannot be read fails, saying why: %j", async (defer, message) => {
    const world = await setup({ a: () => ({ ork_defer: defer }) })
    const runId = await world.trigger("name: far\ntasks: { a: { command: x, retries: 3 } }")
    await world.ended(runId)
    expect(await world.task(runId, "a")).toMatchObject({ status: "failed", error: message, attempt: 1 })
  })
})

describe("a task that is a workflow", () => {
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
    const world = await setup(scripts, options)
    await world.deploy(CHILD)
    const runId = await world.trigger(text)
    const child = async () => (await world.store.listRuns({ workflow: "child", limit: 9 }))[0]!
    return { world, runId, child }
  }

  it("runs it with its input as params, and has its outputs by name", async () => {
    const double = ({ input }: { input: unknown }) => (input as { n: number }).n * 2
    const { world, runId, child } = await family({ double, each: ({ input }) => (input as { item: number }).item })
    expect((await world.ended(runId)).status).toBe("success")
    expect((await world.task(runId, "sub")).output).toEqual({ inline: { double: 42, each: [1, 2] } })
    expect(await child()).toMatchObject({ trigger: "workflow", params: { n: 21 }, parent: { runId, task: "sub" } })
    expect(world.inputs("after")).toEqual([{ sub: { double: 42, each: [1, 2] } }])
  })

  it("holds no slot while it runs", async () => {
    const { world, runId } = await family({}, PARENT, { concurrency: 1 })
    expect((await world.ended(runId)).status).toBe("success")
    expect(world.most()).toBe(1)
  })

  it("fails with it, and a retry makes a new run of it", async () => {
    let calls = 0
    const { world, runId } = await family(
      { double: () => (calls++ === 0 ? fail() : 1) },
      PARENT.replace("workflow: child,", "workflow: child, retries: 1, retry: { base_delay: 1s },"),
    )
    expect((await world.ended(runId)).status).toBe("success")
    expect(await world.store.listRuns({ workflow: "child", limit: 9 })).toHaveLength(2)
    const [first] = await world.store.listAttempts((await world.task(runId, "sub")).row)
    expect(first!.error).toMatch(/^run \S+ of workflow child failed: task double failed$/)
  })

  it("is cancelled with it, and cancels it", async () => {
    const forever = { double: (_: unknown, { untilStopped }: { untilStopped(): Promise<never> }) => untilStopped() }
    const down = await family(forever)
    await down.world.pass(1000)
    await down.world.engine.cancel(down.runId)
    expect((await down.world.ended(down.runId)).status).toBe("cancelled")
    expect((await down.child()).status).toBe("cancelled")
    const up = await family(forever)
    await up.world.pass(1000)
    await up.world.engine.cancel((await up.child()).id)
    expect((await up.world.ended(up.runId)).status).toBe("success")
    expect(await up.world.statuses(up.runId)).toMatchObject({ sub: "cancelled" })
  })

  it("takes its timeout to its child", async () => {
    const { world, runId, child } = await family(
      { double: (_, { untilStopped }) => untilStopped() },
      PARENT.replace("workflow: child,", "workflow: child, timeout: 1m,"),
    )
    expect((await world.ended(runId)).status).toBe("failed")
    expect((await world.task(runId, "sub")).error).toBe("timed out after 1m")
    await world.until(world.engine.waitForRun((await child()).id))
    expect((await child()).status).toBe("cancelled")
  })

  it.each([
    ["workflow: nobody", 'there is no workflow "nobody": deploy it'],
    ["workflow: child, input: { n: x }", 'the input does not fit workflow child: params.n must be a whole number, but is "x"'],
  ])("that cannot be started fails, naming it: %s", async (fields, message) => {
    const { world, runId } = await family({}, `name: parent\ntasks: { sub: { executor: workflow, ${fields} } }`)
    await world.ended(runId)
    expect(await world.task(runId, "sub")).toMatchObject({ status: "failed", error: message })
  })

  it("is nested 8 deep at most", async () => {
    const world = await setup()
    const runId = await world.trigger("name: again\ntasks: { sub: { executor: workflow, workflow: again } }")
    expect((await world.ended(runId)).status).toBe("failed")
    const runs = await world.store.listRuns({ limit: 99 })
    expect(runs).toHaveLength(9)
    const deepest = runs.find((run) => run.trigger === "workflow" && runs.every(({ parent }) => parent?.runId !== run.id))!
    expect((await world.task(deepest.id, "sub")).error).toBe(
      "workflow again is not started: sub-workflows are nested 8 deep at most",
    )
  })
})
