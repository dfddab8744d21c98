// Tests a worker against scripted servers over HTTP.

import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import { Worker, type WorkerOptions } from "./worker.ts"
import { node } from "../core/testing.ts"
import { systemClock, systemRandom } from "../engine/system.ts"
import type { Executor } from "../executors/executor.ts"
import { FileObjectStore } from "../objects/file/file.ts"

type Reply = [status: number, body: unknown]
/** `nextRequest` resolves when another request arrives. */
type Respond = (path: string, body: Record<string, unknown>, nextRequest: () => Promise<void>) => Reply | Promise<Reply>

const serve = async (respond: Respond) => {
  const requests: { path: string; body: Record<string, unknown> }[] = []
  const waiting: (() => void)[] = []
  const nextRequest = (): Promise<void> => new Promise((resolve) => waiting.push(resolve))
  const server = createServer((request, response) => {
    let text = ""
    request.setEncoding("utf8").on("data", (chunk: string) => (text += chunk))
    const reply = async (): Promise<void> => {
      const path = request.url!.replace(/^\/api\/v1\/workers/, "").replace(/^\/[^/]+/, "") || request.method!
      const body = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {}
      requests.push({ path, body })
      for (const resolve of waiting.splice(0)) resolve()
      const [status, content] = await respond(path, body, nextRequest)
      response.writeHead(status).end(typeof content === "string" ? content : JSON.stringify(content))
    }
    request.on("end", () => void reply())
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    of: (path: string) => requests.filter((request) => request.path === path),
  }
}

const error = (code: string, message: string) => ({ error: { code, message } })
const NOTHING = { assignments: [], stop: [], lost: [], closed: [] }
let made = 0
const registered = (more: object = {}): [number, unknown] => [
  201,
  { id: `id-${++made}`, token: `token-${made}`, lease_ms: 1000, heartbeat_ms: 50, ...more },
]

const assignment = (id: string, more: object = {}) => ({
  row: 1,
  attempt_id: id,
  token: "t",
  job: false,
  base_dir: tmpdir(),
  working_dir: null,
  bundle: null,
  upstream: null,
  work: { runId: "r", prefix: `runs/r/t/${id}/`, node: node("t"), env: {}, secrets: [], command: { shell: "x" } },
  ...more,
})

/** Responds to the first claim with an assignment, and to later claims with nothing when another request arrives. */
const assignOnce = (id: string, more: object = {}) => {
  let assigned = false
  return async (nextRequest: () => Promise<void>): Promise<Reply> => {
    if (!assigned) {
      assigned = true
      return [200, { ...NOTHING, assignments: [assignment(id, more)] }]
    }
    await nextRequest()
    return [200, NOTHING]
  }
}

/** Returns an executor whose task runs until the test ends it, or until it is stopped. */
const manualExecutor = () => {
  const finished = Promise.withResolvers<void>()
  const stopped: unknown[] = []
  const launched = Promise.withResolvers<void>()
  const executor: Executor = {
    name: "process",
    async launch(_assignment, { signal, started }) {
      started({ at: 1 })
      launched.resolve()
      const end = await new Promise<"success" | "lost">((resolve) => {
        void finished.promise.then(() => resolve("success"))
        signal.addEventListener("abort", () => (stopped.push(signal.reason), resolve("lost")))
      })
      return { state: end, startedAt: 1, finishedAt: 2 }
    },
  }
  return { executor, finish: finished.resolve, stopped, launched: launched.promise }
}

const start = (servers: string[], options: Partial<WorkerOptions> = {}) => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-worker-"))
  const logged: string[] = []
  const log = (fields: object, text: string): void => void logged.push(`${text} ${JSON.stringify(fields)}`)
  const worker = new Worker({
    servers,
    key: "key",
    name: "w",
    queues: ["default"],
    labels: [],
    capacity: 4,
    version: "1",
    executors: new Map(),
    objects: new FileObjectStore(join(dataDir, "objects")),
    dataDir,
    graceMs: 50,
    clock: systemClock,
    random: systemRandom,
    log: { info: log, warn: log, error: log },
    ...options,
  })
  const ready = Promise.withResolvers<string>()
  const ended = worker.run(ready.resolve)
  ended.catch(() => {})
  onTestFinished(async () => {
    worker.stop()
    await ended.catch(() => {})
    rmSync(dataDir, { recursive: true, force: true })
  })
  return { worker, ended, ready: ready.promise, logged }
}

/** Returns a clock whose timers run a hundred times as fast, and that records their delays. */
const fastClock = () => {
  const waits: number[] = []
  return {
    waits,
    clock: {
      now: () => Date.now(),
      monotonic: () => Date.now(),
      after(ms: number, fn: () => void) {
        waits.push(ms)
        return systemClock.after(ms / 100, fn)
      },
    },
  }
}

test("a worker that one server rejects registers at the next one", async () => {
  const rejecting = await serve(() => [401, error("UNAUTHORIZED", "the API key is not known here")])
  const accepting = await serve((path) =>
    path === "POST" ? registered() : path === "/claim" ? [200, NOTHING] : [200, { stop: [] }],
  )
  const { ready } = start([rejecting.url, accepting.url])
  expect(await ready).toBe(accepting.url)
})

test("a worker that every server rejects fails with their error", async () => {
  const one = await serve(() => [401, error("UNAUTHORIZED", "the API key is not known here")])
  const two = await serve(() => [403, error("FORBIDDEN", "this needs the scope worker")])
  const { ended } = start([one.url, two.url])
  await expect(ended).rejects.toThrow(/scope worker|not known here/)
  expect([one.of("POST").length, two.of("POST").length]).toEqual([1, 1])
})

test.each([
  ["404", 404, "<html>no such backend</html>"],
  ["401", 401, "please log in"],
  ["403", 403, error("FORBIDDEN", "not from here")],
])("a proxy in front of a server that responds %s loses no running task", async (_name, status, page) => {
  const claim = assignOnce("a1")
  const good = await serve((path, _, nextRequest) => {
    if (path === "POST") return registered()
    if (path === "/claim") return claim(nextRequest)
    return path === "/report" ? [200, { refused: [] }] : [200, { stop: [] }]
  })
  let broken = false
  const front = await serve(async (path, body) => {
    if (broken) return [status, page]
    const answer = await fetch(`${good.url}/api/v1/workers${path === "POST" ? "" : `/x${path}`}`, {
      method: "POST",
      body: JSON.stringify(body),
    })
    return [answer.status, await answer.text()]
  })
  const { executor, finish, stopped, launched } = manualExecutor()
  const { logged } = start([front.url, good.url], { executors: new Map([["process", executor]]) })
  await launched
  broken = true
  const before = front.of("/heartbeat").length
  await vi.waitUntil(() => front.of("/heartbeat").length > before && front.of("/claim").length > 1, { timeout: 15_000 })
  const heard = good.of("/heartbeat").length
  await vi.waitUntil(() => good.of("/heartbeat").length > heard + 1, { timeout: 15_000 })
  expect(stopped).toEqual([])
  finish()
  const ends = () => good.of("/report").flatMap(({ body }) => body["entries"] as { kind: string }[])
  await vi.waitUntil(() => ends().some(({ kind }) => kind === "ended"), { timeout: 15_000 })
  expect(logged.join()).not.toContain("was evicted")
})

test("a worker that is evicted again and again registers with growing delays", async () => {
  const server = await serve((path) =>
    path === "POST" ? registered() : [409, error("CONFLICT", "the worker was given up on: register again")],
  )
  const { clock, waits } = fastClock()
  start([server.url], { clock })
  await vi.waitUntil(() => server.of("POST").length >= 8, { timeout: 15_000 })
  expect(waits.filter((ms) => ms >= 1000 && ms <= 5000).length).toBeGreaterThanOrEqual(2)
  expect(waits.filter((ms) => ms >= 50 && ms <= 5000).length).toBeGreaterThanOrEqual(7)
})

test("a permanently rejected result is dropped, so that the server can assign the task to others", async () => {
  const claim = assignOnce("a1")
  const server = await serve((path, { entries }, nextRequest) => {
    if (path === "POST") return registered()
    if (path === "/claim") return claim(nextRequest)
    const ends = (entries as { kind: string }[] | undefined)?.some(({ kind }) => kind === "ended") === true
    return ends ? [422, error("VALIDATION_ERROR", "no")] : [200, { stop: [], refused: [] }]
  })
  const { executor, finish, launched } = manualExecutor()
  start([server.url], {
    executors: new Map([["process", executor]]),
    clock: { ...systemClock, now: () => Date.now() * 20, monotonic: () => Date.now() * 20 },
  })
  await launched
  await vi.waitUntil(() => server.of("/claim").some(({ body }) => (body["known"] as string[] | undefined)?.includes("a1")), {
    timeout: 15_000,
  })
  finish()
  await vi.waitUntil(
    () => (server.of("/claim").findLast(({ body }) => "known" in body)!.body["known"] as string[]).length === 0,
    { timeout: 15_000 },
  )
})

const quick: Executor = {
  name: "process",
  async launch(_assignment, { started }) {
    started({ at: 1 })
    return { state: "success", startedAt: 1, finishedAt: 2 }
  },
}

const START_DELAY_MS = 20

interface ReportedEntry {
  kind: string
  attempt_id: string
}

/** Runs a task on a worker with one slot; the server has a second task for whoever asks. */
const runTwo = async (protocol: object) => {
  const claim = assignOnce("a1")
  let left = [assignment("a2")]
  const server = await serve(async (path, body, nextRequest) => {
    const asksForMore = body["free"] === 1 && server.of("/report").length > 0
    const assignments = asksForMore ? left : []
    if (asksForMore && (path === "/claim" || path === "/report")) left = []
    if (path === "POST") return registered(protocol)
    if (path === "/claim") return assignments.length > 0 ? [200, { ...NOTHING, assignments }] : await claim(nextRequest)
    return path === "/report" ? [200, { refused: [], ...("free" in body && { assignments }) }] : [200, { stop: [] }]
  })
  // However slow the machine is, the tasks end before their starts are due.
  const clock = {
    ...systemClock,
    after: (ms: number, fn: () => void) => (ms === START_DELAY_MS ? () => {} : systemClock.after(ms, fn)),
  }
  start([server.url], { executors: new Map([["process", quick]]), capacity: 1, clock })
  const entries = () => server.of("/report").flatMap(({ body }) => body["entries"] as ReportedEntry[])
  await vi.waitUntil(() => entries().filter(({ kind }) => kind === "ended").length === 2, { timeout: 15_000 })
  return { server, entries: entries().map(({ kind, attempt_id }) => `${attempt_id} ${kind}`) }
}

test("the response to a report brings the next task, and the result of a short task is all that is reported", async () => {
  const { server, entries } = await runTwo({ protocol: 2 })
  expect(entries).toEqual(["a1 ended", "a2 ended"])
  expect(server.of("/report")[0]!.body["free"]).toBe(1)
})

test("reports to a server of an older protocol claim nothing", async () => {
  const { server, entries } = await runTwo({})
  expect(entries).toEqual(["a1 ended", "a2 ended"])
  expect(server.of("/report").filter(({ body }) => "free" in body)).toEqual([])
})

test("a failed download of an upstream file is retried: the task does not fail", async () => {
  const claim = assignOnce("a1", { upstream: { folder: "f", tasks: ["big"] } })
  let away = 3
  const server = await serve((path, _, nextRequest) => {
    if (path === "POST") return registered()
    if (path === "/claim") return claim(nextRequest)
    if (path.startsWith("/upstream")) return away-- > 0 ? [503, error("UNAVAILABLE", "no database")] : [200, "[1]"]
    return path === "/report" ? [200, { refused: [] }] : [200, { stop: [] }]
  })
  const { executor, finish, launched } = manualExecutor()
  start([server.url], { executors: new Map([["process", executor]]) })
  await launched
  finish()
  expect(server.requests.filter(({ path }) => path.startsWith("/upstream"))).toHaveLength(4)
})

test("a stopping worker ends even if no server accepts its last results, and logs that", async () => {
  const claim = assignOnce("a1")
  const server = await serve((path, _, nextRequest) => {
    if (path === "POST") return registered()
    if (path === "/claim") return claim(nextRequest)
    return path === "/report" ? [500, error("INTERNAL", "the disk is full")] : [200, { stop: [] }]
  })
  const { executor, launched } = manualExecutor()
  const { clock } = fastClock()
  const { worker, ended, logged } = start([server.url], { executors: new Map([["process", executor]]), clock, graceMs: 1000 })
  await launched
  worker.stop()
  await ended
  expect(logged.join("\n")).toContain(
    'no server accepted the last results in time; these tasks count as lost and will be retried {"tasks":1}',
  )
})
