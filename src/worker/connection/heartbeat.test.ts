import { Worker } from "node:worker_threads"
import { expect, onTestFinished, test, vi } from "vitest"
import { type HeartbeatMessage, startHeartbeat } from "./heartbeat.ts"

/** A server in a thread of its own, which counts what it hears and answers as told. */
const SERVER = `
const { createServer } = require("node:http")
const { parentPort, workerData } = require("node:worker_threads")
const heard = new Int32Array(workerData.heard)
const server = createServer((request, response) => {
  Atomics.add(heard, 0, 1)
  response.writeHead(workerData.status, { "content-type": "application/json" })
  response.end(JSON.stringify(workerData.answer))
})
server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port))`

const serve = async (status: number, answer: unknown) => {
  const heard = new SharedArrayBuffer(4)
  const thread = new Worker(SERVER, { eval: true, workerData: { heard, status, answer } })
  onTestFinished(async () => void (await thread.terminate()))
  const port = await new Promise<number>((resolve) => thread.once("message", resolve))
  return { url: `http://127.0.0.1:${port}`, count: () => Atomics.load(new Int32Array(heard), 0) }
}

const beat = (servers: string[], everyMs: number): HeartbeatMessage[] => {
  const news: HeartbeatMessage[] = []
  onTestFinished(startHeartbeat({ servers, id: "w", token: "t", everyMs }, (each) => news.push(each)))
  return news
}

/** Threads start slowly on a busy machine. */
const PATIENCE = { timeout: 15_000 }

const DEAD = "http://127.0.0.1:1"

test("the lease is renewed while the main thread is busy", async () => {
  const server = await serve(200, { stop: [] })
  beat([DEAD, server.url], 40)
  await vi.waitUntil(() => server.count() > 0, PATIENCE)
  const before = server.count()
  // Nothing runs in this thread for a second.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000)
  expect(server.count() - before).toBeGreaterThan(4)
})

test("what to stop, and that the worker was given up on, is told", async () => {
  const stop = [{ attempt_id: "a", reason: "cancel" }]
  const refusal = { error: { code: "CONFLICT", message: "register again" } }
  const [alive, gone] = await Promise.all([serve(200, { stop }), serve(409, refusal)])
  const told = beat([alive.url], 20)
  await vi.waitUntil(() => told.length > 0, PATIENCE)
  expect(told[0]).toEqual({ stop })
  const lost = beat([gone.url], 20)
  await vi.waitUntil(() => lost.length > 0, PATIENCE)
  expect(lost[0]).toEqual({ gone: true })
})

test("an answer that is not a server's own says nothing of the worker: the next server is asked", async () => {
  const [proxy, server] = await Promise.all([serve(404, { message: "no such backend" }), serve(200, { stop: [] })])
  const news = beat([proxy.url, server.url], 20)
  await vi.waitUntil(() => server.count() > 1, PATIENCE)
  expect([proxy.count() > 0, news]).toEqual([true, []])
})
