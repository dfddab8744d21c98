import { join } from "node:path"
import { expect, it, onTestFinished, vi } from "vitest"
import { ADMIN_KEY, setup } from "../api/testing/setup.ts"
import { inlineEvaluator } from "../engine/gate/evaluator.ts"
import { systemClock, systemRandom } from "../engine/system.ts"
import { openSqlite } from "../store/sqlite/sqlite.ts"
import { OrkClient } from "./client.ts"
import { type Definition, signal, task, workflow } from "./definitions.ts"
import { CancelledError, ConflictError, InvalidInputError, NotFoundError, NotJsonError, OrkError } from "./errors.ts"
import type { OrkEvent } from "./events.ts"
import type { Orkable } from "./orkable.ts"
import { compileGraph } from "./graph/compile-graph.ts"
import { graph } from "./graph/graph.ts"
import { Ork } from "./ork.ts"

/** Opens a server, a client of it, and a program that runs definitions on the same database. */
const openBoth = async (run: readonly Definition[]) => {
  const api = await setup()
  const { folder, objects } = api
  const store = await openSqlite({ path: join(folder, "ork.db"), clock: systemClock, random: systemRandom })
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const parts = { store, objects, log, evaluator: inlineEvaluator, clock: systemClock, random: systemRandom }
  const process = { process: "program", name: "program", holder: "run", concurrency: 10, version: "test" } as const
  const program = await Ork.start({ ...parts, ...process }, run)
  onTestFinished(async () => {
    await program.stop()
    await api[Symbol.asyncDispose]()
  })
  const url = await api.server.app.listen({ host: "127.0.0.1", port: 0 })
  return { api, program, client: new OrkClient({ url, key: ADMIN_KEY }) }
}

const count = task("count", {}, (input) => input)
const LARGE = "x".repeat(100_000)

it("returns results that are objects in the object store, of jobs and of functions", async () => {
  const large = task("large", {}, () => LARGE)
  const flow = workflow("flow", {}, async (_, step) => await step.run("large", () => LARGE))
  const { client } = await openBoth([large, flow])
  expect(await (await client.enqueue(large, null)).result()).toBe(LARGE)
  expect(await (await client.enqueue(flow, {})).result()).toBe(LARGE)
})

it("says why a function, or a task of a graph, has failed", async () => {
  const fails = task("fails", { retry: { attempts: 1 } }, () => {
    throw new Error("no paper")
  })
  const flow = workflow("flow", {}, async (_, step) => await step.call(fails, {}))
  const printing = graph("printing", {}, (g) => g.task("print", fails, {}))
  const { client } = await openBoth([fails, flow, printing])
  await expect((await client.enqueue(flow, {})).result()).rejects.toThrow(/^flow \S+ failed: fails \S+ failed: no paper$/)
  await expect((await client.enqueue(printing, {})).result()).rejects.toThrow(/failed: task print failed: no paper$/)
})

it("shows the error of a failed function in its run, however the run is found", async () => {
  const flow = workflow("flow", {}, () => {
    throw new Error("no paper")
  })
  const { client, program } = await openBoth([flow])
  for (const [key, ork] of Object.entries({ client, program })) {
    const run = await ork.enqueue(flow, {}, { key })
    await expect(run.result()).rejects.toThrow(/^flow \S+ failed: no paper$/)
    const found = [await run.refresh(), await ork.get(run.id), await ork.enqueue(flow, {}, { key })]
    const listed = await Array.fromAsync(ork.list({ def: flow, status: ["failed"] }))
    for (const each of [...found, listed[0]]) expect(each).toMatchObject({ id: run.id, status: "failed", error: "no paper" })
  }
})

it("rejects what a program rejects, and writes nothing", async () => {
  const flow = workflow("flow", {}, () => null)
  const { client, program } = await openBoth([count, flow])
  for (const ork of [client, program]) {
    await expect(ork.enqueue(count, 1n)).rejects.toThrow(NotJsonError)
    await expect(ork.enqueue(count, () => 1)).rejects.toThrow(NotJsonError)
    await expect(ork.enqueue(flow, [1])).rejects.toThrow(InvalidInputError)
    await expect(ork.enqueue(flow, {}, { delay: "1s" })).rejects.toThrow("cannot be delayed")
    await expect(ork.enqueue(flow, {}, { key: "k", onConflict: "replace" })).rejects.toThrow("cannot be replaced")
    await expect(ork.enqueue(count, 1, { priority: 11 })).rejects.toThrow(TypeError)
    await expect(ork.enqueue("count" as never, 1)).rejects.toThrow(TypeError)
    await expect(ork.signal("none", signal("paid"), 1n)).rejects.toThrow(NotJsonError)
    await expect(ork.schedule("", "0 8 * * 1", count, {})).rejects.toThrow('the schedule "": use a name')
    expect(await ork.enqueueAll(count, [])).toEqual([])
    expect(await ork.get("none")).toBeNull()
    await ork.unschedule("none")
    expect(await Array.fromAsync(ork.list({ def: count }))).toEqual([])
    expect(await Array.fromAsync(ork.list({ def: flow }))).toEqual([])
  }
  await client.enqueue(flow, {}, { key: "k" })
  await expect(client.enqueue(flow, {}, { key: "k", onConflict: "error" })).rejects.toThrow(ConflictError)
})

it("rejects bad schedules, ids and positions of events with the errors of a program", async () => {
  const flow = workflow("flow", {}, () => null)
  const { client, program } = await openBoth([count, flow])
  const done = await program.enqueue(count, 1)
  const ended = await program.enqueue(flow, {})
  await Promise.all([done.result(), ended.result()])
  const absent = "01890a5d-ac96-774b-bcce-b302099a8057"
  const paid = signal("paid")
  const given = (value: unknown): never => value as never
  const ids = ["none", "", "../jobs", absent, done.id]
  const calls: Record<string, ((ork: Orkable) => unknown)[]> = {
    TypeError: [
      (ork) => ork.schedule("s", "at eight", count, {}),
      (ork) => ork.schedule("s", given(8), count, {}),
      (ork) => ork.schedule("s", "0 8 * * 1", count, {}, { timezone: "Mars/X" }),
      (ork) => ork.schedule("s", "0 8 * * 1", count, {}, { overlap: given("never") }),
      (ork) => ork.schedule("s", "0 8 * * 1", count, {}, { catchup: given(true) }),
      (ork) => ork.schedule("s", "0 8 * * 1", given("count"), {}),
      (ork) => ork.schedule("s", "0 8 * * 1", count, {}, given(5)),
      (ork) => ork.schedule("a b", "0 8 * * 1", count, {}),
      (ork) => ork.unschedule("a b"),
      (ork) => ork.signal(given(undefined), paid, null),
      ...["x", "", "1.x", given(5)].map((after) => (ork: Orkable) => ork.events({ after })),
      (ork) => Array.fromAsync(ork.list({ def: "flow", status: given(["completed"]) })),
      (ork) => Array.fromAsync(ork.list({ def: "count", status: given(["success"]) })),
      async (ork) => await (await ork.get(done.id))!.result({ timeout: given("soon") }),
    ],
    NotFoundError: [
      ...ids.flatMap((id) => [
        (ork: Orkable) => ork.signal(id, paid, null),
        (ork: Orkable) => ork.approve(id, "x"),
        (ork: Orkable) => ork.reject(id, "x"),
      ]),
      (ork) => ork.approve(ended.id, "x"),
    ],
    ConflictError: [
      (ork) => ork.schedule("flow", "0 8 * * 1", count, {}),
      (ork) => ork.unschedule("flow"),
      (ork) => ork.signal(ended.id, paid, null),
      (ork) => ork.events({ after: "99999999.0" }).next(),
      async (ork) => await (await ork.get(done.id))!.cancel(),
      async (ork) => await (await ork.get(done.id))!.retry(),
      async (ork) => await (await ork.get(done.id))!.retry({ from: "x" }),
      async (ork) => await (await ork.get(ended.id))!.cancel(),
      async (ork) => await (await ork.get(ended.id))!.retry(),
    ],
    nothing: [
      (ork) => ork.get("none"),
      (ork) => Array.fromAsync(ork.list({ def: "a b" })),
      (ork) => Array.fromAsync(ork.list({ def: "none" })),
    ],
  }
  const thrownBy = async (call: () => unknown): Promise<string> => {
    try {
      await call()
      return "nothing"
    } catch (error) {
      return (error as Error).name
    }
  }
  for (const [expected, each] of Object.entries(calls))
    for (const call of each)
      for (const ork of [program, client]) expect(await thrownBy(() => call(ork)), String(call)).toBe(expected)
})

it("says that work was created when it is read again, and not when it is found", async () => {
  const { client, program } = await openBoth([count])
  for (const ork of [client, program]) {
    const created = await ork.enqueue(count, 1)
    expect(await created.refresh()).toMatchObject({ created: true })
    expect(await ork.get(created.id)).toMatchObject({ created: false })
  }
})

it("schedules tasks with their retries, and durable functions, whose inputs are no expressions", async () => {
  const inputs: unknown[] = []
  const flaky = task("flaky", { retry: { attempts: 2, delay: "1ms" } }, (input, { attempt }) => {
    if (attempt === 1) throw new Error("once more")
    inputs.push(input)
  })
  const flow = workflow("flow", {}, async (input, step) => {
    await step.sleep("a while", "1ms")
    inputs.push(input)
  })
  const { client } = await openBoth([flaky, flow])
  const input = { text: "${{ params.none }}", list: ["$${{ 1 }}"] }
  await client.schedule("every-second", "* * * * * *", flaky, input)
  await client.schedule("every-second-too", "* * * * * *", flow, input)
  await vi.waitFor(() => expect(inputs.length).toBeGreaterThanOrEqual(2), { timeout: 10_000 })
  await client.unschedule("every-second")
  await client.unschedule("every-second-too")
  expect(inputs.slice(0, 2)).toEqual([input, input])
})

it("shows the input and the result of a scheduled function as a program does, and signals it", async () => {
  const paid = signal("paid")
  const flow = workflow("flow", { priority: 7, retry: { attempts: 2 } }, async (input, step) => [
    input,
    await step.waitFor(paid),
  ])
  const echo = task("echo", { timeout: "5m" }, (input) => input)
  const { api, client, program } = await openBoth([flow, echo])
  const input = { cents: 5, "not a name": "${{ params.none }}" }
  const definitions: Record<string, unknown> = {}
  for (const [by, ork] of Object.entries({ client, program })) {
    await ork.schedule(`flow-${by}`, "* * * * * *", flow, input)
    await ork.schedule(`echo-${by}`, "* * * * * *", echo, input)
    for (const name of ["flow", "echo"]) {
      const { body } = await api.call("GET", `/workflows/${name}-${by}`)
      definitions[`${name} by ${by}`] = { ...(JSON.parse(String(body["definition"])) as object), name }
    }
  }
  for (const name of ["flow", "echo"]) expect(definitions[`${name} by client`]).toEqual(definitions[`${name} by program`])
  const runsOf = async (ork: Orkable, name: string) => await Array.fromAsync(ork.list({ def: name }))
  for (const name of ["flow-client", "flow-program", "echo-client", "echo-program"])
    await vi.waitFor(async () => expect((await runsOf(program, name)).length).toBeGreaterThan(0), { timeout: 10_000 })
  for (const [by, signaller] of Object.entries({ client: program, program: client })) {
    const [waiting] = await runsOf(program, `flow-${by}`)
    await signaller.signal(waiting!, paid, by)
    const [echoed] = await runsOf(program, `echo-${by}`)
    for (const ork of [client, program]) {
      const [run, other] = [await ork.get(waiting!.id), await ork.get(echoed!.id)]
      expect([run!.input, await run!.result({ timeout: "10s" })]).toEqual([input, [input, by]])
      expect([other!.input, await other!.result({ timeout: "10s" })]).toEqual([input, input])
    }
    await client.unschedule(`flow-${by}`)
    await client.unschedule(`echo-${by}`)
  }
})

const numbers = graph("numbers", {}, (g) => {
  const all = g.eachGroup("all", [1, 2], (inner) => inner.define("one", { command: "echo" }))
  g.define("last", { command: "echo" }, { after: [all] })
  return all
})

it("starts runs of graphs, and returns what the graph returns or the outputs of its tasks", async () => {
  const api = await setup()
  onTestFinished(() => api[Symbol.asyncDispose]())
  const url = await api.server.app.listen({ host: "127.0.0.1", port: 0 })
  const client = new OrkClient({ url, key: ADMIN_KEY })
  const { source } = compileGraph(numbers)
  const deployed = await fetch(`${url}/api/v1/workflows`, {
    method: "POST",
    headers: { authorization: `Bearer ${ADMIN_KEY}`, "content-type": "application/yaml" },
    body: source,
  })
  expect(deployed.status).toBe(201)
  const run = await client.enqueue(numbers, {}, { key: "once" })
  expect(await run.result()).toEqual([{ task: "all.one" }, { task: "all.one" }])
  expect(await client.enqueue(numbers, {}, { key: "once" })).toMatchObject({ id: run.id, created: false })
  const found = await client.get(run.id)
  expect(await found?.result()).toMatchObject({ all: [{ one: { task: "all.one" } }, {}], last: { task: "last" } })
  expect((await Array.fromAsync(client.list({ def: numbers }))).map(({ id }) => id)).toEqual([run.id])
})

it("answers approvals of durable functions, and cancels the functions", async () => {
  const cleaned: string[] = []
  const flow = workflow("flow", {}, async (_, step) => {
    const { approved, by, comment } = await step.approval("ship it", { message: "Ship order 7?", timeout: "1d" })
    try {
      await step.sleep("long", approved ? "30d" : "1ms")
    } finally {
      await step.run("clean up", () => void cleaned.push(`${by} ${comment}`))
    }
    return approved
  })
  const { api, client } = await openBoth([flow])
  const [shipped, refused] = [await client.enqueue(flow, {}), await client.enqueue(flow, {})]
  const waiting = (name: string) => async () =>
    expect((await api.call("GET", `/runs/${shipped.id}/steps`)).body["items"]).toMatchObject([
      ...(name === "long" ? [{ state: "success" }] : []),
      { name, state: "waiting" },
    ])
  await vi.waitFor(waiting("ship it"))
  expect((await api.call("GET", `/runs/${shipped.id}/steps`)).body["items"]).toMatchObject([
    { kind: "approval", message: "Ship order 7?", default: "reject", until: expect.any(String) as string },
  ])
  await vi.waitFor(async () => await client.reject(refused, "ship it", { comment: "no" }))
  expect(await refused.result()).toBe(false)
  await client.approve(shipped, "ship it", { path: "0" })
  await expect(client.approve(shipped, "ship it")).rejects.toThrow(ConflictError)
  await vi.waitFor(waiting("long"))
  await shipped.cancel()
  await expect(shipped.result()).rejects.toThrow(CancelledError)
  expect(cleaned).toEqual(["admin no", "admin null"])
  const reserved = await api.call("POST", `/runs/${shipped.id}/signals/ork:cancel`)
  expect(reserved).toMatchObject({ status: 400 })
})

const job = task("mail", {}, () => null)

/** Returns a client whose server gives these answers in turn, the last one for ever. */
const scripted = (...answers: [status: number, body: unknown, headers?: Record<string, string>][]) => {
  const fetch = vi.fn<typeof globalThis.fetch>(async (_url, init) => {
    init?.signal?.throwIfAborted()
    const [status, body, headers = {}] = answers.length > 1 ? answers.shift()! : answers[0]!
    return new Response(JSON.stringify(body), { status, headers })
  })
  return { fetch, client: new OrkClient({ url: "http://127.0.0.1:1", key: "k", fetch }) }
}

const failure = (code: string, details?: object[]) => ({ error: { code, message: "no", ...(details && { details }) } })

it("sends a request again that the server postponed", async () => {
  const { client, fetch } = scripted(
    [503, failure("UNAVAILABLE"), { "retry-after": "0" }],
    [201, { id: "j", name: "mail", status: "READY" }],
  )
  expect(await client.enqueue(job, {})).toMatchObject({ id: "j", created: true })
  expect(fetch).toHaveBeenCalledTimes(2)
})

it("throws the errors of the SDK", async () => {
  const rejected = (status: number, body: object) => scripted([status, body]).client.enqueue(job, {})
  await expect(rejected(404, failure("NOT_FOUND"))).rejects.toThrow(NotFoundError)
  await expect(rejected(409, failure("CONFLICT"))).rejects.toThrow(ConflictError)
  const details = [{ path: "queue", message: "is not a name", line: 1 }]
  await expect(rejected(400, failure("VALIDATION_ERROR", details))).rejects.toThrow(InvalidInputError)
  await expect(rejected(500, failure("INTERNAL"))).rejects.toThrow(OrkError)
})

it("rejects with the reason of the signal that ends the waiting for a result", async () => {
  const { client } = scripted([201, { id: "j", name: "mail", status: "READY" }], [200, { status: "RUNNING" }])
  const work = await client.enqueue(job, {})
  await expect(work.result({ signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow("enough")
})

it("iterates over events, and lists failed jobs to retry them", async () => {
  let broken = true
  const send = task("send", { retry: { attempts: 1 } }, async (_, { progress }) => {
    progress(0.25)
    if (broken) throw new Error("broken")
  })
  const { client } = await openBoth([send])
  const events = client.events({ def: send })
  const job = await client.enqueue(send, null, { key: "once" })
  await expect(client.enqueue(send, null, { key: "once", onConflict: "error" })).rejects.toThrow(ConflictError)
  const seen: OrkEvent[] = []
  for await (const event of events) {
    seen.push(event)
    if (event.status === "failed") break
  }
  expect(seen.at(-1)).toMatchObject({ type: "job", work: job.id, name: "send", error: "broken" })
  broken = false
  expect(await Array.fromAsync(client.list({ def: send, status: ["completed"] }))).toEqual([])
  for await (const failed of client.list({ def: send, status: ["failed"] })) await failed.retry()
  expect(await job.result()).toBeNull()
  expect(await job.refresh()).toMatchObject({ status: "completed", attempts: 2, progress: { fraction: 0.25 } })
})

it("gives jobs the limits that they have in a program: of the task, and of each group", async () => {
  let running = 0
  let most = 0
  const limited = task("limited", { limit: { concurrency: 2, perGroup: 1 }, group: (tenant) => String(tenant) }, async () => {
    most = Math.max(most, ++running)
    await new Promise((resolve) => setTimeout(resolve, 20))
    running--
  })
  const { api, program, client } = await openBoth([limited])
  const jobs = [...(await program.enqueueAll(limited, ["a", "b", "c"])), ...(await client.enqueueAll(limited, ["a", "b", "c"]))]
  const sent = await Promise.all(jobs.map(async ({ id }) => (await api.call("GET", `/jobs/${id}`)).body["limits"]))
  expect(sent.slice(0, 3)).toEqual(sent.slice(3))
  expect(sent[0]).toEqual([
    { key: "task:limited", cap: 2 },
    { key: "task:limited:a", cap: 1 },
  ])
  for (const job of jobs) await job.result()
  expect(most).toBe(2)
})
