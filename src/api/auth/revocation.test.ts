// The removal of a key takes effect within a second: for requests, streams, sessions, workers and on other servers of the same database.

import { setTimeout as delay } from "node:timers/promises"
import { expect, onTestFinished, test, vi } from "vitest"
import { listen } from "../http/server.ts"
import { setup as setupApi, type SetupOptions } from "../testing/setup.ts"

const SOON = { timeout: 1000, interval: 20 }
/** Lifetime of a key or secret that a busy machine can use before it ends. */
const BRIEFLY = "2s"
const AFTER_EXPIRY = { timeout: 10_000, interval: 20 }

const setup = async (options: SetupOptions = {}) => {
  const api = await setupApi(options)
  onTestFinished(() => api[Symbol.asyncDispose]())
  const newKey = async (body: object): Promise<{ id: string; key: string }> => {
    const created = await api.call("POST", "/keys", { body: { name: "test", ...body } })
    expect(created.status).toBe(201)
    return created.body as unknown as { id: string; key: string }
  }
  return { api, newKey, remove: (id: string) => api.call("DELETE", `/keys/${id}`) }
}

const openStream = async (url: string, headers: Record<string, string>) => {
  const controller = new AbortController()
  onTestFinished(() => controller.abort())
  const response = await fetch(`${url}/events`, { headers, signal: controller.signal })
  const state = { status: response.status, ended: false }
  const read = async (): Promise<void> => {
    for await (const _ of response.body!);
  }
  void read()
    .catch(() => {})
    .finally(() => (state.ended = true))
  return state
}

test("the removal of a key ends its streams and its sessions", async () => {
  const { api, newKey, remove } = await setup()
  const url = await listen(api.server, { host: "127.0.0.1", port: 0 })
  const { id, key } = await newKey({ scopes: ["read"] })
  const signedIn = await api.call("POST", "/ui/sign-in", { key: null, body: { key } })
  const cookie = String(signedIn.headers["set-cookie"]).split(";")[0]!
  const streams = [await openStream(url, { "x-api-key": key }), await openStream(url, { cookie })]
  await delay(700)
  expect(streams).toEqual(Array(2).fill({ status: 200, ended: false }))
  await remove(id)
  await vi.waitUntil(() => streams.every(({ ended }) => ended), SOON)
  expect((await api.call("GET", "/runs", { key: null, headers: { cookie } })).status).toBe(401)
})

test("signing out ends the session, also for its streams", async () => {
  const { api, newKey } = await setup()
  const url = await listen(api.server, { host: "127.0.0.1", port: 0 })
  const { key } = await newKey({ scopes: ["read"] })
  const signedIn = await api.call("POST", "/ui/sign-in", { key: null, body: { key } })
  const cookie = String(signedIn.headers["set-cookie"]).split(";")[0]!
  const stream = await openStream(url, { cookie })
  await api.call("POST", "/ui/sign-out", { key: null, headers: { cookie } })
  expect((await api.call("GET", "/runs", { key: null, headers: { cookie } })).status).toBe(401)
  await vi.waitUntil(() => stream.ended, SOON)
  expect((await api.call("GET", "/runs", { key })).status).toBe(200)
})

test("another server of the same database rejects a removed key within a second", async () => {
  const { api, newKey, remove } = await setup()
  const other = await setupApi({ wrap: () => api.store, closeStore: false })
  onTestFinished(() => other[Symbol.asyncDispose]())
  const { id, key } = await newKey({ scopes: ["read"] })
  expect((await other.call("GET", "/runs", { key })).status).toBe(200)
  await remove(id)
  await vi.waitUntil(async () => (await other.call("GET", "/runs", { key })).status === 401, SOON)
})

test("a key that expires ends its streams", async () => {
  const { api, newKey } = await setup()
  const url = await listen(api.server, { host: "127.0.0.1", port: 0 })
  const { key } = await newKey({ scopes: ["read"], expires_in: BRIEFLY })
  const stream = await openStream(url, { "x-api-key": key })
  expect(stream.status).toBe(200)
  await vi.waitUntil(() => stream.ended, AFTER_EXPIRY)
  expect((await api.call("GET", "/runs", { key })).status).toBe(401)
})

test("a rotated key has a new secret, and the old one works for the overlap", async () => {
  const { api, newKey } = await setup()
  const { id, key } = await newKey({ scopes: ["read"] })
  const rotated = await api.call("POST", `/keys/${id}/rotate`, { body: { overlap: BRIEFLY } })
  const status = async (each: string) => (await api.call("GET", "/runs", { key: each })).status
  expect([await status(key), await status(rotated.body["key"] as string)]).toEqual([200, 200])
  await vi.waitUntil(async () => (await status(key)) === 401, AFTER_EXPIRY)
  expect(await status(rotated.body["key"] as string)).toBe(200)
})

test("the old secret of a rotated key ends its sessions and evicts its workers after the overlap", async () => {
  const { api, newKey } = await setup()
  const { id, key } = await newKey({ scopes: ["admin"] })
  const signIn = async (by: string): Promise<string> =>
    String((await api.call("POST", "/ui/sign-in", { key: null, body: { key: by } })).headers["set-cookie"]).split(";")[0]!
  const register = async (by: string) =>
    (await api.call("POST", "/workers", { body: { name: "w", queues: ["far"], capacity: 1 }, key: by })).body as unknown as {
      id: string
      token: string
    }
  const status = async (cookie: string) => (await api.call("GET", "/runs", { key: null, headers: { cookie } })).status
  const heartbeat = async ({ id: worker, token }: { id: string; token: string }) =>
    (await api.call("POST", `/workers/${worker}/heartbeat`, { body: {}, key: token })).status
  const before = { cookie: await signIn(key), worker: await register(key) }
  const rotated = await api.call("POST", `/keys/${id}/rotate`, { body: { overlap: BRIEFLY } })
  const secret = rotated.body["key"] as string
  const after = { cookie: await signIn(secret), worker: await register(secret) }
  expect([await status(before.cookie), await heartbeat(before.worker)]).toEqual([200, 200])
  await vi.waitUntil(async () => (await status(before.cookie)) === 401, AFTER_EXPIRY)
  await vi.waitUntil(async () => (await heartbeat(before.worker)) === 409, AFTER_EXPIRY)
  expect([await status(after.cookie), await heartbeat(after.worker)]).toEqual([200, 200])
  await api.call("POST", `/keys/${id}/rotate`)
  expect([await status(after.cookie), await heartbeat(after.worker)]).toEqual([401, 409])
  expect((await api.call("GET", "/workers")).text).not.toContain(after.worker.id)
})

test("the removal of a key evicts the workers that it registered, and their attempts go to others", async () => {
  const { api, newKey, remove } = await setup({ lanes: ["q:default"] })
  await api.deploy("far", { a: { command: "x", queue: "far" } })
  const { id, key } = await newKey({ scopes: ["worker"] })
  const register = (body: object, by: string) =>
    api.call("POST", "/workers", { body: { name: "w", queues: ["far"], capacity: 1, ...body }, key: by })
  const worker = (await register({}, key)).body as unknown as { id: string; token: string }
  const claim = (wait: number) =>
    api.call("POST", `/workers/${worker.id}/claim`, { body: { free: 1, wait_ms: wait, known: [] }, key: worker.token })
  const polled = claim(20_000)
  await remove(id)
  expect((await polled).status).toBe(409)
  expect((await claim(0)).status).toBe(409)
  expect((await register({}, key)).status).toBe(401)
  expect((await api.call("GET", "/workers")).text).not.toContain(worker.id)
})

test("neither a worker's token nor a session may register a worker", async () => {
  const { api, newKey } = await setup()
  const { key } = await newKey({ scopes: ["worker"] })
  const body = { name: "w", queues: ["far"], capacity: 1 }
  const { token } = (await api.call("POST", "/workers", { body, key })).body as unknown as { token: string }
  expect((await api.call("POST", "/workers", { body, key: token })).status).toBe(403)
  const signedIn = await api.call("POST", "/ui/sign-in", { key: null, body: { key } })
  const cookie = String(signedIn.headers["set-cookie"]).split(";")[0]!
  expect((await api.call("POST", "/workers", { body, key: null, headers: { cookie } })).status).toBe(403)
})

test("a worker of a key with queues may serve only these", async () => {
  const { api, newKey } = await setup()
  const { key } = await newKey({ scopes: ["worker"], queues: ["far", "gpu"] })
  const register = (body: object) => api.call("POST", "/workers", { body: { name: "w", capacity: 1, ...body }, key })
  expect((await register({ queues: ["far"] })).status).toBe(201)
  const rejected = await register({ queues: ["far", "default"] })
  expect([rejected.status, rejected.body.error!.message]).toEqual([403, expect.stringContaining("but not default")])
  expect((await register({ queues: ["far"], handlers: ["default"] })).status).toBe(403)
})

test("one key may open a limited number of streams", async () => {
  const { api, newKey } = await setup({ config: { streamsPerCaller: 2 } })
  const url = await listen(api.server, { host: "127.0.0.1", port: 0 })
  const [one, two] = [await newKey({ scopes: ["read"] }), await newKey({ scopes: ["read"] })]
  const statuses = []
  for (const { key } of [one, one, one, two]) statuses.push((await openStream(url, { "x-api-key": key })).status)
  expect(statuses).toEqual([200, 200, 429, 200])
})
