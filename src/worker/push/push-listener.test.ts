// A worker that listens, spoken to over HTTP as a server does, and as somebody who must not.

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
/** The machine may be busy. */
const PATIENCE = { timeout: 15_000 }

/** Ends when it is told how, or to stop. */
class HeldExecutor implements Executor {
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
    await vi.waitUntil(() => this.launched.at(-1) === `task of ${token}`, PATIENCE)
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
  const executor = new HeldExecutor(objects)
  const log = { info: () => {}, warn: vi.fn<(fields: object, message: string) => void>(), error: () => {} }
  const listener = new PushListener({
    apiKey: KEY,
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
  const { heard, answers, callback } = await callbacks()
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
  return { listener, url, executor, send, post, task, heard, answers, log }
}

const TASK = { run_id: "r", task_id: "t", command: "true", input: null, attempt: 1 }

/** A server's end: keeps what it is told, answers as told, 204 else. */
const callbacks = async () => {
  const heard: Record<string, unknown>[] = []
  const answers: number[] = []
  const server = createServer((incoming, response) => {
    let text = ""
    incoming.setEncoding("utf8").on("data", (chunk: string) => (text += chunk))
    incoming.on("end", () => {
      heard.push(JSON.parse(text) as Record<string, unknown>)
      response.writeHead(answers.shift() ?? 204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  return { heard, answers, callback: `http://127.0.0.1:${(server.address() as AddressInfo).port}/result` }
}

test("a task that is sent again, at once or after its end, is answered alike and runs once", async () => {
  const { send, task, executor, heard } = await setup()
  const body = task("one")
  const overheard = proofOf(KEY, { path: "/execute", body }, Date.now())
  expect((await send("/execute", body, overheard)).status).toBe(202)
  expect((await send("/execute", body, overheard)).status).toBe(202)
  await executor.end("one", { output: { inline: 7 } })
  await vi.waitUntil(() => heard.length > 0, PATIENCE)
  expect(heard[0]).toMatchObject({ task_instance_id: "task of one", status: "success", output: 7 })
  expect((await send("/execute", body, overheard)).status).toBe(202)
  expect(executor.launched).toEqual(["task of one"])
})

test("what was signed before this worker began is refused: another may have run it", async () => {
  const { send, task, executor } = await setup()
  const body = task("one")
  const { status, body: said } = await send("/execute", body, proofOf(KEY, { path: "/execute", body }, Date.now() - 60_000))
  expect([status, said.error?.message]).toEqual([401, "this was signed too long ago; sign it anew"])
  expect(executor.launched).toEqual([])
})

test("a task whose stop comes before it does is not run", async () => {
  const { send, post, task, executor } = await setup()
  expect((await post("/stop", { token: "one" })).status).toBe(202)
  expect((await send("/execute", task("one"))).status).toBe(202)
  expect((await post("/alive", { tokens: ["one"] })).body).toEqual({ unknown: ["one"] })
  expect(executor.launched).toEqual([])
})

test("nothing is read from somebody whose headers prove nothing, and no proof fits another path or body", async () => {
  const { url, send, task } = await setup()
  const body = task("one")
  const proof = proofOf(KEY, { path: "/execute", body }, Date.now())
  expect((await send("/stop", body, proof)).status).toBe(401)
  expect((await send("/execute", `${body} `, proof)).status).toBe(401)
  expect((await send("/execute", body, proofOf("another key", { path: "/execute", body }, Date.now()))).status).toBe(401)
  // A body that never comes to its end: the answer must not wait for it.
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

test("bodies that are read at once share one budget", async () => {
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

test("the worker says which tasks it has, and ends one that nobody asks about any more", async () => {
  const leases = new Set<() => void>()
  const clock: Clock = {
    now: () => Date.now(),
    after(ms, fn) {
      if (ms !== 1234) return systemClock.after(ms, fn)
      leases.add(fn)
      return () => leases.delete(fn)
    },
  }
  const { send, post, task, executor, heard } = await setup({ clock })
  await send("/execute", task("one", { lease_ms: 1234 }))
  const [first] = leases
  expect((await post("/alive", { tokens: ["one", "two"] })).body).toEqual({ unknown: ["two"] })
  expect([leases.size, leases.has(first!)], "its lease begins anew").toEqual([1, false])
  await vi.waitUntil(() => executor.launched.length > 0, PATIENCE)
  for (const runOut of leases) runOut()
  await vi.waitUntil(() => heard.length > 0, PATIENCE)
  expect([executor.stopped, heard[0]!["status"]]).toEqual([["lost"], "lost"])
  await vi.waitUntil(async () => (await post("/alive", { tokens: ["one"] })).body.unknown?.length === 1, PATIENCE)
})

test("a result that the server cannot read is told as a failure, and one that it does not want is not told again", async () => {
  const { send, post, task, executor, heard, answers, log } = await setup()
  answers.push(400, 503, 204, 409)
  await send("/execute", task("one"))
  await executor.end("one", { output: { inline: "odd" } })
  await vi.waitUntil(() => heard.length === 3, PATIENCE)
  expect(heard.map(({ status }) => status)).toEqual(["success", "failed", "failed"])
  expect(heard[2]!["error"]).toMatch(/^its result cannot be told to the server/)
  await send("/execute", task("two"))
  await executor.end("two")
  await vi.waitUntil(async () => (await post("/alive", { tokens: ["two"] })).body.unknown?.length === 1, PATIENCE)
  expect(heard).toHaveLength(4)
  expect(log.warn).toHaveBeenCalledWith(expect.objectContaining({ status: 409 }), "the server refused the result of a task")
})

test("a result always fits into the server's limit, whatever is in it", async () => {
  const { send, task, executor, heard } = await setup()
  await send("/execute", task("one"))
  await executor.end("one", { output: { inline: "ü".repeat(300_000) } }, "\u0001".repeat(200_000))
  await vi.waitUntil(() => heard.length === 1, PATIENCE)
  expect([heard[0]!["status"], (heard[0]!["output"] as string).length]).toEqual(["success", 300_000])
  expect(JSON.stringify(heard[0]).length).toBeGreaterThan(400_000)
  expect(Buffer.byteLength(JSON.stringify(heard[0]))).toBeLessThan(1_048_576)
  await send("/execute", task("two"))
  await executor.end("two", { output: { inline: "ü".repeat(600_000) } })
  await vi.waitUntil(() => heard.length === 2, PATIENCE)
  expect(heard[1]).toMatchObject({ status: "failed", error: expect.stringContaining("too large") as string })
})

test("told to stop, it takes nothing more, is still asked about what runs, and tells that it was lost", async () => {
  const { listener, send, post, task, executor, heard } = await setup({ graceMs: 300 })
  await send("/execute", task("one"))
  const stopping = listener.stop()
  expect((await send("/execute", task("two"))).body.error?.message).toBe("this worker is about to end")
  expect((await post("/alive", { tokens: ["one"] })).body).toEqual({ unknown: [] })
  await stopping
  expect(executor.stopped).toEqual(["shutdown"])
  expect(heard).toMatchObject([{ status: "lost" }])
})

test("what a killed worker left of its tasks goes at the next start, and what a live one has does not", async () => {
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
