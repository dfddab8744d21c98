// Tests a listening worker over HTTP, with requests of a server and of others without its key.

import { createServer, request } from "node:http"
import type { AddressInfo } from "node:net"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import { PushListener, type PushListenerOptions } from "./push-listener.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { systemClock, systemRandom } from "../../engine/system.ts"
import type { Executor, StopReason } from "../../executors/executor.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { openLog } from "../../objects/logs/log-sink.ts"
import { proofOf } from "../../protocol/wire/push-proof.ts"

const KEY = "a key of the server"
/** Generous, because the machine may be busy. */
const TIMEOUT = { timeout: 15_000 }

/** An executor whose tasks end when the test ends them, or when they are stopped. */
class ManualExecutor implements Executor {
  readonly name = "process"
  readonly launched: string[] = []
  readonly stopped: StopReason[] = []
  #end: (result: Partial<AttemptResult>, log: string) => void = () => {}
  readonly #objects: FileObjectStore

  constructor(objects: FileObjectStore) {
    this.#objects = objects
  }

  /** Ends the task of this token. */
  async end(token: string, result: Partial<AttemptResult> = {}, log = ""): Promise<void> {
    await vi.waitUntil(() => this.launched.at(-1) === `task of ${token}`, TIMEOUT)
    this.#end(result, log)
  }

  launch: Executor["launch"] = async ({ taskId, prefix }, { signal }) => {
    this.launched.push(taskId)
    const base = { startedAt: 1, finishedAt: 2 }
    return await new Promise<AttemptResult>((resolve) => {
      this.#end = (result, log) => {
        const sink = openLog(this.#objects, prefix, { secrets: [] })
        void sink.write("stdout", log)
        void sink.close().then(() => resolve({ ...base, state: "success", ...result }))
      }
      signal.addEventListener("abort", () => {
        this.stopped.push(signal.reason as StopReason)
        resolve({ ...base, state: signal.reason === "cancel" ? "cancelled" : "lost", error: "stopped" })
      })
    })
  }
}

const setup = async (options: Partial<PushListenerOptions> = {}) => {
  const { dataDir = mkdtempSync(join(tmpdir(), "ork-push-")) } = options
  const objects = new FileObjectStore(join(dataDir, "objects"))
  const executor = new ManualExecutor(objects)
  const log = { info: () => {}, warn: vi.fn<(fields: object, message: string) => void>(), error: () => {} }
  const listener = new PushListener({
    key: KEY,
    host: "127.0.0.1",
    port: 0,
    capacity: 2,
    executors: new Map([["process", executor]]),
    objects,
    dataDir,
    graceMs: 10,
    clock: systemClock,
    random: systemRandom,
    log,
    identity: "me",
    alive: (identity) => identity === "me",
    ...options,
  })
  const url = await listener.start()
  const { received, statuses, callback } = await startCallbackServer()
  onTestFinished(async () => {
    await listener.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })
  const send = async (path: string, body: string, headers = proofOf(KEY, { path, body }, Date.now())) => {
    const answer = await fetch(url + path, { method: "POST", headers, body })
    return { status: answer.status, body: (await answer.json()) as { unknown?: string[]; error?: { message: string } } }
  }
  const task = (token: string, more: object = {}): string =>
    JSON.stringify({ ...TASK, task_instance_id: `task of ${token}`, token, callback_url: callback, ...more })
  const post = (path: string, body: object) => send(path, JSON.stringify(body))
  return { listener, url, executor, send, post, task, received, statuses, log }
}

const TASK = { run_id: "r", task_id: "t", command: "true", input: null, attempt: 1 }

/** A server that records the results it receives, and responds with the given statuses, then with 204. */
const startCallbackServer = async () => {
  const received: Record<string, unknown>[] = []
  const statuses: number[] = []
  const server = createServer((incoming, response) => {
    let text = ""
    incoming.setEncoding("utf8").on("data", (chunk: string) => (text += chunk))
    incoming.on("end", () => {
      received.push(JSON.parse(text) as Record<string, unknown>)
      response.writeHead(statuses.shift() ?? 204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  return { received, statuses, callback: `http://127.0.0.1:${(server.address() as AddressInfo).port}/result` }
}

test("a repeated task gets the same response, also after its end, and runs once", async () => {
  const { send, task, executor, received } = await setup()
  const body = task("one")
  const replayed = proofOf(KEY, { path: "/execute", body }, Date.now())
  expect((await send("/execute", body, replayed)).status).toBe(202)
  expect((await send("/execute", body, replayed)).status).toBe(202)
  await executor.end("one", { output: { inline: 7 } })
  await vi.waitUntil(() => received.length > 0, TIMEOUT)
  expect(received[0]).toMatchObject({ task_instance_id: "task of one", status: "success", output: 7 })
  expect((await send("/execute", body, replayed)).status).toBe(202)
  expect(executor.launched).toEqual(["task of one"])
})

test("a request that was signed before this worker started is rejected: another process may have run it", async () => {
  const { send, task, executor } = await setup()
  const body = task("one")
  const { status, body: response } = await send("/execute", body, proofOf(KEY, { path: "/execute", body }, Date.now() - 60_000))
  expect([status, response.error?.message]).toEqual([401, "this was signed too long ago; sign it again"])
  expect(executor.launched).toEqual([])
})

test("a task whose stop request arrives first does not run", async () => {
  const { send, post, task, executor } = await setup()
  expect((await post("/stop", { token: "one" })).status).toBe(202)
  expect((await send("/execute", task("one"))).status).toBe(202)
  expect((await post("/alive", { tokens: ["one"] })).body).toEqual({ unknown: ["one"] })
  expect(executor.launched).toEqual([])
})

test("a body without valid headers is not read, and a proof is valid for one path and body only", async () => {
  const { url, send, task } = await setup()
  const body = task("one")
  const proof = proofOf(KEY, { path: "/execute", body }, Date.now())
  expect((await send("/stop", body, proof)).status).toBe(401)
  expect((await send("/execute", `${body} `, proof)).status).toBe(401)
  expect((await send("/execute", body, proofOf("another key", { path: "/execute", body }, Date.now()))).status).toBe(401)
  // The response must not wait for a body that never ends.
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const stranger = request(`${url}/execute`, { method: "POST", headers: { "content-length": 64 << 20 } }, (answer) => {
      resolve(answer.statusCode)
      stranger.destroy()
    })
    stranger.on("error", reject)
    stranger.write("x")
  })
  expect(status).toBe(401)
})

test("bodies in transfer share one budget", async () => {
  const { url, send, task } = await setup({ maxBody: 2000, maxBodies: 2500 })
  expect((await send("/execute", task("large", { input: "x".repeat(2000) }))).status).toBe(413)
  const slow = task("slow", { input: "x".repeat(1200) })
  const headers = { ...proofOf(KEY, { path: "/execute", body: slow }, Date.now()), "content-length": slow.length }
  const opened = request(`${url}/execute`, { method: "POST", headers })
  const answered = new Promise<number | undefined>((resolve) => opened.once("response", (answer) => resolve(answer.statusCode)))
  await new Promise((resolve) => opened.write(slow.slice(0, -1), resolve))
  const other = task("other", { input: "x".repeat(1200) })
  await vi.waitUntil(async () => (await send("/execute", other)).status === 503, { interval: 20 })
  opened.end(slow.slice(-1))
  expect(await answered).toBe(202)
  expect((await send("/execute", other)).status).toBe(202)
})

test("the worker lists its running tasks, and stops one that its server does not ask about any more", async () => {
  const leases = new Set<() => void>()
  const clock: Clock = {
    now: () => Date.now(),
    monotonic: () => Date.now(),
    after(ms, fn) {
      if (ms !== 1234) return systemClock.after(ms, fn)
      leases.add(fn)
      return () => leases.delete(fn)
    },
  }
  const { send, post, task, executor, received } = await setup({ clock })
  await send("/execute", task("one", { lease_ms: 1234 }))
  const [first] = leases
  expect((await post("/alive", { tokens: ["one", "two"] })).body).toEqual({ unknown: ["two"] })
  expect([leases.size, leases.has(first!)], "its lease is renewed").toEqual([1, false])
  await vi.waitUntil(() => executor.launched.length > 0, TIMEOUT)
  for (const expire of leases) expire()
  await vi.waitUntil(() => received.length > 0, TIMEOUT)
  expect([executor.stopped, received[0]!["status"]]).toEqual([["lost"], "lost"])
  await vi.waitUntil(async () => (await post("/alive", { tokens: ["one"] })).body.unknown?.length === 1, TIMEOUT)
})

test("a result that the server cannot parse is reported as a failure, and a rejected one is not sent again", async () => {
  const { send, post, task, executor, received, statuses, log } = await setup()
  statuses.push(400, 503, 204, 409)
  await send("/execute", task("one"))
  await executor.end("one", { output: { inline: "odd" } })
  await vi.waitUntil(() => received.length === 3, TIMEOUT)
  expect(received.map(({ status }) => status)).toEqual(["success", "failed", "failed"])
  expect(received[2]!["error"]).toMatch(/^its result cannot be reported to the server/)
  await send("/execute", task("two"))
  await executor.end("two")
  await vi.waitUntil(async () => (await post("/alive", { tokens: ["two"] })).body.unknown?.length === 1, TIMEOUT)
  expect(received).toHaveLength(4)
  expect(log.warn).toHaveBeenCalledWith(expect.objectContaining({ status: 409 }), "the server rejected the result of a task")
})

test("a result is sent again after a response that is not the server's, such as that of a proxy", async () => {
  const { send, task, executor, received, statuses } = await setup()
  statuses.push(404, 302, 408, 204)
  await send("/execute", task("one"))
  await executor.end("one", { output: { inline: 7 } })
  await vi.waitUntil(() => received.length === 4, TIMEOUT)
  expect(received.at(-1)).toMatchObject({ status: "success", output: 7 })
})

test("a result always fits into the server's limit", async () => {
  const { send, task, executor, received } = await setup()
  await send("/execute", task("one"))
  await executor.end("one", { output: { inline: "ü".repeat(300_000) } }, "\u0001".repeat(200_000))
  await vi.waitUntil(() => received.length === 1, TIMEOUT)
  expect([received[0]!["status"], (received[0]!["output"] as string).length]).toEqual(["success", 300_000])
  expect(JSON.stringify(received[0]).length).toBeGreaterThan(400_000)
  expect(Buffer.byteLength(JSON.stringify(received[0]))).toBeLessThan(1_048_576)
  await send("/execute", task("two"))
  await executor.end("two", { output: { inline: "ü".repeat(600_000) } })
  await vi.waitUntil(() => received.length === 2, TIMEOUT)
  expect(received[1]).toMatchObject({ status: "failed", error: expect.stringContaining("too large") as string })
})

test("a stopping worker rejects tasks, still answers for running ones, and reports them as lost", async () => {
  const { listener, send, post, task, executor, received } = await setup({ graceMs: 300 })
  await send("/execute", task("one"))
  const stopping = listener.stop()
  expect((await send("/execute", task("two"))).body.error?.message).toBe("this worker is stopping")
  expect((await post("/alive", { tokens: ["one"] })).body).toEqual({ unknown: [] })
  await stopping
  expect(executor.stopped).toEqual(["shutdown"])
  expect(received).toMatchObject([{ status: "lost" }])
})

test("the next start removes files of a killed worker, and keeps files of a live one", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-push-"))
  for (const owner of ["dead", "other"]) {
    for (const folder of [`pushed/${owner}/t`, `objects/pushed/${owner}/t`]) {
      mkdirSync(join(dataDir, folder), { recursive: true })
      writeFileSync(join(dataDir, folder, "file"), "x")
    }
  }
  await setup({ dataDir, alive: (identity) => identity === "other" })
  expect([readdirSync(join(dataDir, "pushed")), readdirSync(join(dataDir, "objects/pushed"))]).toEqual([["other"], ["other"]])
})
