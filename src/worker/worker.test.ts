// A worker and servers that say what a test has them say, over HTTP.

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

type Said = [status: number, body: unknown]
/** `another`: the next request has come. */
type Say = (path: string, body: Record<string, unknown>, another: () => Promise<void>) => Said | Promise<Said>

const serve = async (say: Say) => {
  const asked: { path: string; body: Record<string, unknown> }[] = []
  const listening: (() => void)[] = []
  const another = (): Promise<void> => new Promise((resolve) => listening.push(resolve))
  const server = createServer((request, response) => {
    let text = ""
    request.setEncoding("utf8").on("data", (chunk: string) => (text += chunk))
    const answer = async (): Promise<void> => {
      const path = request.url!.replace(/^\/api\/v1\/workers/, "").replace(/^\/[^/]+/, "") || request.method!
      const body = text.startsWith("{") ? (JSON.parse(text) as Record<string, unknown>) : {}
      asked.push({ path, body })
      for (const resolve of listening.splice(0)) resolve()
      const [status, said] = await say(path, body, another)
      response.writeHead(status).end(typeof said === "string" ? said : JSON.stringify(said))
    }
    request.on("end", () => void answer())
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    of: (path: string) => asked.filter((one) => one.path === path),
  }
}

const error = (code: string, message: string) => ({ error: { code, message } })
const NOTHING = { assignments: [], stop: [], lost: [], over: [] }
let made = 0
const registered = (): [number, unknown] => [
  201,
  { id: `id-${++made}`, token: `token-${made}`, lease_ms: 1000, heartbeat_ms: 50 },
]

const assignment = (id: string, more: object = {}) => ({
  row: 1,
  attempt_id: id,
  token: "t",
  job: false,
  base_dir: tmpdir(),
  working_dir: null,
  bundle: null,
  upstream: [],
  work: { runId: "r", prefix: `runs/r/t/${id}/`, node: node("t"), env: {}, secrets: [], command: { shell: "x" } },
  ...more,
})

/** Gives one assignment, then nothing, when something else was heard. */
const giveOnce = (id: string, more: object = {}) => {
  let given = false
  return async (another: () => Promise<void>): Promise<Said> => {
    if (!given) {
      given = true
      return [200, { ...NOTHING, assignments: [assignment(id, more)] }]
    }
    await another()
    return [200, NOTHING]
  }
}

/** Runs until it is let go, or stopped. */
const held = () => {
  const go = Promise.withResolvers<void>()
  const stopped: unknown[] = []
  const launched = Promise.withResolvers<void>()
  const executor: Executor = {
    name: "process",
    async launch(_assignment, { signal, started }) {
      started({ at: 1 })
      launched.resolve()
      const end = await new Promise<"success" | "lost">((resolve) => {
        void go.promise.then(() => resolve("success"))
        signal.addEventListener("abort", () => (stopped.push(signal.reason), resolve("lost")))
      })
      return { state: end, startedAt: 1, finishedAt: 2 }
    },
  }
  return { executor, go: go.resolve, stopped, launched: launched.promise }
}

const start = (servers: string[], options: Partial<WorkerOptions> = {}) => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-worker-"))
  const told: string[] = []
  const tell = (fields: object, text: string): void => void told.push(`${text} ${JSON.stringify(fields)}`)
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
    log: { info: tell, warn: tell, error: tell },
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
  return { worker, ended, ready: ready.promise, told }
}

/** Time goes a hundred times as fast; what was asked for is kept. */
const fastClock = () => {
  const waits: number[] = []
  return {
    waits,
    clock: {
      now: () => Date.now(),
      after(ms: number, fn: () => void) {
        waits.push(ms)
        return systemClock.after(ms / 100, fn)
      },
    },
  }
}

test("a server that refuses the worker is passed over for one that takes it", async () => {
  const refusing = await serve(() => [401, error("UNAUTHORIZED", "the API key is not known here")])
  const taking = await serve((path) =>
    path === "POST" ? registered() : path === "/claim" ? [200, NOTHING] : [200, { stop: [] }],
  )
  const { ready } = start([refusing.url, taking.url])
  expect(await ready).toBe(taking.url)
})

test("a worker that every server refuses ends with what they say", async () => {
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
])("what stands in front of a server and answers %s loses nothing that the worker runs", async (_name, status, page) => {
  const give = giveOnce("a1")
  const good = await serve((path, _, another) => {
    if (path === "POST") return registered()
    if (path === "/claim") return give(another)
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
  const { executor, go, stopped, launched } = held()
  const { told } = start([front.url, good.url], { executors: new Map([["process", executor]]) })
  await launched
  broken = true
  const before = front.of("/heartbeat").length
  await vi.waitUntil(() => front.of("/heartbeat").length > before && front.of("/claim").length > 1, { timeout: 15_000 })
  const heard = good.of("/heartbeat").length
  await vi.waitUntil(() => good.of("/heartbeat").length > heard + 1, { timeout: 15_000 })
  expect(stopped).toEqual([])
  go()
  const ends = () => good.of("/report").flatMap(({ body }) => body["entries"] as { kind: string }[])
  await vi.waitUntil(() => ends().some(({ kind }) => kind === "ended"), { timeout: 15_000 })
  expect(told.join()).not.toContain("given up on")
})

test("a worker that is taken and given up on again and again asks more and more slowly", async () => {
  const server = await serve((path) =>
    path === "POST" ? registered() : [409, error("CONFLICT", "the worker was given up on: register again")],
  )
  const { clock, waits } = fastClock()
  start([server.url], { clock })
  await vi.waitUntil(() => server.of("POST").length >= 8, { timeout: 15_000 })
  expect(waits.filter((ms) => ms >= 1000 && ms <= 5000).length).toBeGreaterThanOrEqual(2)
  expect(waits.filter((ms) => ms >= 50 && ms <= 5000).length).toBeGreaterThanOrEqual(7)
})

test("a result that the server refuses for good is dropped, so that the server can give the task to others", async () => {
  const give = giveOnce("a1")
  const server = await serve((path, { entries }, another) => {
    if (path === "POST") return registered()
    if (path === "/claim") return give(another)
    const ends = (entries as { kind: string }[] | undefined)?.some(({ kind }) => kind === "ended") === true
    return ends ? [422, error("VALIDATION_ERROR", "no")] : [200, { stop: [], refused: [] }]
  })
  const { executor, go, launched } = held()
  start([server.url], { executors: new Map([["process", executor]]), clock: { ...systemClock, now: () => Date.now() * 20 } })
  await launched
  await vi.waitUntil(() => server.of("/claim").some(({ body }) => (body["known"] as string[] | undefined)?.includes("a1")), {
    timeout: 15_000,
  })
  go()
  await vi.waitUntil(
    () => (server.of("/claim").findLast(({ body }) => "known" in body)!.body["known"] as string[]).length === 0,
    { timeout: 15_000 },
  )
})

test("files that a server cannot send now are asked for again: the task does not fail for that", async () => {
  const give = giveOnce("a1", { upstream: ["big"] })
  let away = 3
  const server = await serve((path, _, another) => {
    if (path === "POST") return registered()
    if (path === "/claim") return give(another)
    if (path.startsWith("/upstream")) return away-- > 0 ? [503, error("UNAVAILABLE", "no database")] : [200, "[1]"]
    return path === "/report" ? [200, { refused: [] }] : [200, { stop: [] }]
  })
  const { executor, go, launched } = held()
  start([server.url], { executors: new Map([["process", executor]]) })
  await launched
  go()
  expect(server.asked.filter(({ path }) => path.startsWith("/upstream"))).toHaveLength(4)
})

test("told to stop, it comes to its end though no server takes its last results, and says so", async () => {
  const give = giveOnce("a1")
  const server = await serve((path, _, another) => {
    if (path === "POST") return registered()
    if (path === "/claim") return give(another)
    return path === "/report" ? [500, error("INTERNAL", "the disk is full")] : [200, { stop: [] }]
  })
  const { executor, launched } = held()
  const { clock } = fastClock()
  const { worker, ended, told } = start([server.url], { executors: new Map([["process", executor]]), clock, graceMs: 1000 })
  await launched
  worker.stop()
  await ended
  expect(told.join("\n")).toContain(
    'no server took the last results in time; these tasks count as lost, and are tried again {"tasks":1}',
  )
})
