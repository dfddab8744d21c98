import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { afterEach, expect, onTestFinished, test } from "vitest"
import { ADMIN_KEY, setup } from "../../api/testing/setup.ts"
import { Client, ClientError, everyItem, type StreamItem, collect } from "./client.ts"

const decoder = new TextDecoder()

const served = async () => {
  const api = await setup()
  const url = await api.server.app.listen({ host: "127.0.0.1", port: 0 })
  return { api, client: new Client({ url, key: ADMIN_KEY }), url, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() }
}

const rejection = async (work: Promise<unknown>): Promise<ClientError> => {
  const error = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof ClientError)) throw new Error(`no ClientError: ${String(error)}`)
  return error
}

const waits: number[] = []
afterEach(() => void (waits.length = 0))

/** A clock on which delays of less than ten seconds pass at once and are recorded; longer timeouts never fire. */
const fastClock = {
  after(ms: number, run: () => void) {
    if (ms >= 10_000) return () => {}
    waits.push(ms)
    const timer = setImmediate(run)
    return () => clearImmediate(timer)
  },
}

/** Starts a server that replies to each request with the next handler; the last one serves all further requests. */
const scripted = async (...answers: ((request: IncomingMessage, response: ServerResponse) => void)[]) => {
  const seen: IncomingMessage[] = []
  const server = createServer((request, response) => {
    seen.push(request)
    answers[Math.min(seen.length, answers.length) - 1]!(request, response)
  })
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { client: new Client({ url, key: "k", clock: fastClock }), seen, url }
}

const json = (status: number, body: unknown, headers: Record<string, string> = {}) => {
  return (_request: IncomingMessage, response: ServerResponse): void => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))
  }
}

const error = (code: string, message: string) => ({ error: { code, message } })

test("a workflow can be deployed, triggered and read", async () => {
  await using world = await served()
  const { client, api } = world
  const text = "name: etl\nparams: { n: 1 }\ntasks:\n  a: { command: echo hello }\n"
  const first = await client.deploy({ text, format: "yaml" })
  expect([first.created, first.workflow.version]).toEqual([true, 1])
  expect((await client.deploy({ text, format: "yaml" })).created).toBe(false)
  const { run, created } = await client.trigger("etl", { params: { n: 2 }, idempotency_key: "once" })
  expect([created, run.params, run.workflow]).toEqual([true, { n: 2 }, "etl"])
  const again = await client.trigger("etl", { params: { n: 2 }, idempotency_key: "once" })
  expect([again.created, again.run.id]).toEqual([false, run.id])
  await api.engine.waitForRun(run.id as never)
  expect((await client.getRun(run.id)).status).toBe("success")
  expect((await client.listTasks(run.id)).items).toMatchObject([{ name: "a", status: "success" }])
  expect(await new Response(await client.readLog({ runId: run.id, task: "a" })).text()).toBe("hello\n")
  expect(await collect(client.readLogLines({ runId: run.id, task: "a" }))).toMatchObject([{ line: "hello" }])
})

test("a rejected request throws one error with code, status and all problems", async () => {
  await using world = await served()
  const { client, url } = world
  const bad = await rejection(client.deploy({ text: "name: w\ntasks:\n  a: { comand: x }\n", format: "yaml" }))
  expect([bad.code, bad.status]).toEqual(["VALIDATION_ERROR", 400])
  expect(bad.details).toContainEqual(expect.objectContaining({ line: 3, column: 8, suggestion: "command" }))
  expect((await rejection(client.getWorkflow("none"))).code).toBe("NOT_FOUND")
  expect((await rejection(new Client({ url }).listRuns())).code).toBe("UNAUTHORIZED")
})

test("a list is requested page by page", async () => {
  await using world = await served()
  for (const name of ["a", "b", "c"]) await world.api.deploy(name, { t: "true" })
  const names = await collect(
    everyItem((cursor) => world.client.listWorkflows({ limit: 1, ...(cursor !== undefined && { cursor }) })),
  )
  expect(names.map(({ name }) => name)).toEqual(["a", "b", "c"])
})

test("the events of a run after a position arrive in order, each once", async () => {
  await using world = await served()
  const { client, api } = world
  await api.deploy("etl", { a: "true", b: { command: "true", depends_on: ["a"] } })
  const after = await client.position()
  const { run } = await client.trigger("etl")
  await api.engine.waitForRun(run.id as never)
  const received: string[] = []
  for await (const item of client.events({ runId: run.id, after })) {
    if (item.type === "event") received.push(`${item.event.task ?? "run"} ${item.event.status}`)
    if (received.at(-1) === "run success") break
  }
  expect(received[0]).toMatch(/^run /)
  expect(received.filter((each) => each.endsWith("success"))).toEqual(["a success", "b success", "run success"])
})

test("a log is followed through all attempts until the task finishes, even before it starts", async () => {
  await using world = await served()
  const { client, api } = world
  const retry = { max_attempts: 2, backoff: "fixed", base_delay: 0.01 }
  await api.deploy("late", { a: "block", b: { command: "echo try;fail", depends_on: ["a"], retry } })
  const { run } = await client.trigger("late")
  await api.executor.blocked("a")
  const bytes = collect(client.followLog({ runId: run.id, task: "b" }))
  const lines = collect(client.followLogLines({ runId: run.id, task: "b" }))
  api.executor.release("a")
  expect((await bytes).map((each) => decoder.decode(each)).join("")).toBe("try\ntry\n")
  expect((await lines).map(({ line }) => line)).toEqual(["try", "try"])
})

test("the log of a skipped task is empty when followed", async () => {
  await using world = await served()
  await world.api.deploy("etl", { a: { command: "echo a", if: "false" } })
  const id = await world.api.runToEnd("etl")
  expect(await collect(world.client.followLog({ runId: id, task: "a" }))).toEqual([])
})

test("requests carry the key and follow no redirects", async () => {
  const { client, seen } = await scripted((_request, response) => void response.writeHead(302, { location: "/x" }).end())
  const moved = await rejection(client.listRuns())
  expect([moved.code, moved.status]).toEqual(["UNREADABLE", 302])
  expect(seen.map((request) => [request.url, request.headers["x-api-key"]])).toEqual([["/api/v1/runs", "k"]])
})

test("a read is retried with growing delays; a change is not, unless it is repeatable", async () => {
  const cut = (request: IncomingMessage): void => void request.socket.destroy()
  const { client, seen } = await scripted(cut, cut, json(200, { items: [], next_cursor: null, has_more: false }), cut)
  expect((await client.listRuns()).items).toEqual([])
  expect([seen.length, waits]).toEqual([3, [200, 400]])
  expect((await rejection(client.trigger("w"))).code).toBe("UNREACHABLE")
  expect(seen).toHaveLength(4)
  expect((await rejection(client.trigger("w", { idempotency_key: "k" }))).message).toMatch(/no server responds at http.*closed/)
  expect(seen).toHaveLength(8)
})

test("a change that was postponed with Retry-After is sent again after that time", async () => {
  const away = json(503, error("UNAVAILABLE", "the database is away"), { "retry-after": "2" })
  const { client, seen } = await scripted(away, json(201, { id: "1" }))
  expect((await client.trigger("w")).run.id).toBe("1")
  expect([seen.length, waits]).toEqual([2, [2000]])
})

test("a postponed request fails after some retries, a rejected one at once", async () => {
  const away = json(503, error("UNAVAILABLE", "the database is away"), { "retry-after": "1" })
  const first = await scripted(away)
  expect((await rejection(first.client.listRuns())).message).toBe("the database is away")
  expect(first.seen).toHaveLength(4)
  const second = await scripted(json(409, error("CONFLICT", "it has ended")))
  expect((await rejection(second.client.cancelRun("x"))).code).toBe("CONFLICT")
  expect(second.seen).toHaveLength(1)
})

test("a request without a response has the reason in its error", async () => {
  const server = createServer()
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await new Promise((resolve) => void server.close(resolve))
  const error = await rejection(new Client({ url, retries: 0 }).listRuns())
  expect([error.message, error.status]).toEqual([`no server responds at ${url}: the connection was refused`, null])
})

test("a response of another server is UNREADABLE", async () => {
  const page = (_request: IncomingMessage, response: ServerResponse): void => void response.end("<html>")
  const { client } = await scripted(page)
  expect((await rejection(client.listRuns())).code).toBe("UNREADABLE")
  const other = await scripted((_request, response) => void response.writeHead(404).end("<html>"))
  expect((await rejection(other.client.listRuns())).message).toMatch(/replied with status 404, but not like an Ork server/)
})

const frame = (id: string, status: string): string =>
  `id: ${id}\nevent: run\ndata: ${JSON.stringify({ event: "run", run_id: "r", status })}\n\n`

test("a broken stream continues after the last id", async () => {
  const head = { "content-type": "text/event-stream" }
  const { client, seen } = await scripted(
    (_request, response) => void response.writeHead(200, head).end("id: 7.0\n\n"),
    (_request, response) => {
      response.writeHead(200, head)
      // In two pieces, the second one cut off in the middle of an event.
      response.write(`: ork\n\n${frame("8.0", "running")}`, () => {
        response.write("id: 9.0\nevent: run\nda", () => void response.destroy())
      })
    },
    json(503, error("UNAVAILABLE", "stopping"), { "retry-after": "1" }),
    (_request, response) => void response.writeHead(200, head).write(frame("9.0", "success")),
  )
  const items: StreamItem[] = []
  for await (const item of client.events({ runId: "r" })) {
    items.push(item)
    if (item.type === "event" && item.event.status === "success") break
  }
  expect(items.map((item) => ("id" in item ? item.id : item.type))).toEqual(["7.0", "8.0", "9.0"])
  expect(seen.map((request) => request.headers["last-event-id"])).toEqual([undefined, "7.0", "8.0", "8.0"])
})

test("an aborted stream ends without an error", async () => {
  const { client } = await scripted((_request, response) => void response.writeHead(200).write(frame("1.0", "running")))
  const stop = new AbortController()
  const items: StreamItem[] = []
  for await (const item of client.events({ signal: stop.signal })) {
    items.push(item)
    stop.abort()
  }
  expect(items).toHaveLength(1)
})

test("a rejected stream is not requested again", async () => {
  const { client, seen } = await scripted(json(401, error("UNAUTHORIZED", "no key")))
  expect((await rejection(collect(client.events()))).code).toBe("UNAUTHORIZED")
  expect(seen).toHaveLength(1)
})

test("a broken log continues at the next byte", async () => {
  const task = (status: string) => json(200, { attempt: 1, status, attempts: [{ attempt: 1 }] })
  const { client, seen } = await scripted(
    task("running"),
    (_request, response) => void response.writeHead(200).write("one\n", () => response.destroy()),
    (_request, response) => void response.end("two\n"),
    task("success"),
  )
  const bytes = await collect(client.followLog({ runId: "r", task: "a" }))
  expect(bytes.map((each) => decoder.decode(each)).join("")).toBe("one\ntwo\n")
  expect(seen.map((request) => request.url?.split("?")[1])).toEqual([
    undefined,
    "attempt=1&follow=true&offset=0",
    "attempt=1&follow=true&offset=4",
    undefined,
  ])
})
