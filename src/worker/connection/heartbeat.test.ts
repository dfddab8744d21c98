import { Worker } from "node:worker_threads"
import { expect, onTestFinished, test, vi } from "vitest"
import { type HeartbeatMessage, startHeartbeat } from "./heartbeat.ts"

/** A server in its own thread, which counts requests and sends a fixed response; without a status it never responds and counts aborts. */
const SERVER = `
const { createServer } = require("node:http")
const { parentPort, workerData } = require("node:worker_threads")
const count = new Int32Array(workerData.count)
const server = createServer((request, response) => {
  if (workerData.status === null) return request.socket.on("close", () => Atomics.add(count, 0, 1))
  Atomics.add(count, 0, 1)
  response.writeHead(workerData.status, { "content-type": "application/json" })
  response.end(JSON.stringify(workerData.body))
})
server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port))`

const serve = async (status: number | null, body: unknown) => {
  const count = new SharedArrayBuffer(4)
  const thread = new Worker(SERVER, { eval: true, workerData: { count, status, body } })
  onTestFinished(async () => void (await thread.terminate()))
  const port = await new Promise<number>((resolve) => thread.once("message", resolve))
  return { url: `http://127.0.0.1:${port}`, count: () => Atomics.load(new Int32Array(count), 0) }
}

const beat = (servers: string[], everyMs: number, stallMs = 60_000): HeartbeatMessage[] => {
  const messages: HeartbeatMessage[] = []
  onTestFinished(startHeartbeat({ servers, id: "w", token: "t", everyMs, stallMs }, (message) => messages.push(message)))
  return messages
}

/** Nothing runs in this thread for a while. */
const block = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

/** Threads start slowly on a busy machine. */
const TIMEOUT = { timeout: 15_000 }

const DEAD = "http://127.0.0.1:1"

test("the lease is renewed while the main thread is busy", async () => {
  const server = await serve(200, { stop: [] })
  beat([DEAD, server.url], 40)
  await vi.waitUntil(() => server.count() > 0, TIMEOUT)
  const before = server.count()
  block(1000)
  expect(server.count() - before).toBeGreaterThan(4)
})

test("the lease is not renewed while the main thread has been blocked for longer than the stall limit", async () => {
  const server = await serve(200, { stop: [] })
  beat([server.url], 50, 200)
  await vi.waitUntil(() => server.count() > 0, TIMEOUT)
  block(2000)
  const stalled = server.count()
  block(500)
  expect(server.count()).toBe(stalled)
  await vi.waitUntil(() => server.count() > stalled, TIMEOUT)
})

test("stop requests and an eviction are passed on", async () => {
  const stop = [{ attempt_id: "a", reason: "cancel" }]
  const conflict = { error: { code: "CONFLICT", message: "register again" } }
  const [alive, evicting] = await Promise.all([serve(200, { stop }), serve(409, conflict)])
  const stops = beat([alive.url], 20)
  await vi.waitUntil(() => stops.length > 0, TIMEOUT)
  expect(stops[0]).toEqual({ stop })
  const evictions = beat([evicting.url], 20)
  await vi.waitUntil(() => evictions.length > 0, TIMEOUT)
  expect(evictions[0]).toEqual({ evicted: true })
})

test("after a response that is not from an Ork server, the next server is asked", async () => {
  const [proxy, server] = await Promise.all([serve(404, { message: "no such backend" }), serve(200, { stop: [] })])
  const messages = beat([proxy.url, server.url], 20)
  await vi.waitUntil(() => server.count() > 1, TIMEOUT)
  expect([proxy.count() > 0, messages]).toEqual([true, []])
})

test("servers that hang do not keep the next one from being asked in time", async () => {
  const [first, second, alive] = await Promise.all([serve(null, {}), serve(null, {}), serve(200, { stop: [] })])
  beat([first.url, second.url, alive.url], 1000)
  await vi.waitUntil(() => alive.count() > 0, TIMEOUT)
  expect([first.count(), second.count()]).toEqual([0, 0])
})
