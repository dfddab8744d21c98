// The audit log: every change in the transaction of the change, sign-ins and refusals.

import { expect, onTestFinished, test, vi } from "vitest"
import { brokenEntry } from "../../core/rules/access/audit-chain.ts"
import { ADMIN_KEY, setup as setupApi, type SetupOptions, untilWaiting } from "../testing/setup.ts"

interface Entry {
  id: number
  key_id: string | null
  actor: string | null
  address: string
  action: string
  target: string
  result: string
  details: string | null
}

const setup = async (options: SetupOptions = {}) => {
  const api = await setupApi(options)
  onTestFinished(() => api[Symbol.asyncDispose]())
  const entries = async (): Promise<Entry[]> => (await api.call("GET", "/audit")).body["items"] as Entry[]
  return Object.assign(api, { entries, last: async () => (await entries())[0] })
}

test("a change has its entry when the response arrives, with key, name, address and target", async () => {
  const api = await setup()
  const made = await api.call("POST", "/keys", { body: { name: "ci", scopes: ["trigger"] } })
  expect(await api.last()).toMatchObject({ actor: "admin", action: "key.create", target: made.body["id"], details: "trigger" })
  await api.deploy("etl", { a: "true" })
  expect(await api.last()).toMatchObject({ action: "workflow.deploy", target: "etl", details: "version 1", result: "ok" })
  const run = await api.call("POST", "/workflows/etl/runs", { key: made.body["key"] as string })
  expect(await api.last()).toMatchObject({
    key_id: made.body["id"],
    actor: "ci",
    address: "127.0.0.1",
    action: "run.create",
    target: run.body["id"],
  })
  expect(run.body["created_by"]).toBe("ci")
  expect((await api.call("GET", `/runs/${run.body["id"] as string}`)).body["created_by"]).toBe("ci")
  const job = await api.call("POST", "/jobs", { body: { name: "j", queue: "q" } })
  expect(await api.last()).toMatchObject({ action: "job.create", target: job.body["id"] })
})

test("an entry is committed by the transaction of its change", async () => {
  const api = await setup({
    wrap: (store) => ({ ...store, appendAudit: () => Promise.reject(new Error("a separate transaction")) }),
  })
  await api.deploy("etl", { a: "true" })
  const id = await api.runToEnd("etl")
  await api.call("POST", `/runs/${id}/retry`, { body: { from: "a" } })
  await api.call("PUT", "/queues/slow", { body: { paused: true } })
  await api.call("POST", "/workflows/etl/pause")
  expect((await api.entries()).map(({ action }) => action)).toEqual([
    "workflow.pause",
    "queue.set",
    "run.retry",
    "run.create",
    "workflow.deploy",
  ])
})

test("the entries of approvals and callbacks are committed by the transaction of the loop", async () => {
  const api = await setup({
    wrap: (store) => ({ ...store, appendAudit: () => Promise.reject(new Error("a separate transaction")) }),
  })
  await api.deploy("ask", { a: { executor: "approval" }, far: { command: "defer", defer: true } })
  const id = (await api.call("POST", "/workflows/ask/runs")).body["id"] as string
  await untilWaiting(api, id, 2)
  expect((await api.call("POST", `/runs/${id}/tasks/a/approve`)).status).toBe(200)
  expect(await api.last()).toMatchObject({ action: "task.approve", target: `${id}/a`, actor: "admin" })
  expect((await api.call("POST", `/runs/${id}/tasks/a/approve`)).status).toBe(409)
  const callback = new URL(api.executor.callbacks.get("far")!).pathname
  expect((await api.call("POST", callback, { body: { status: "success" }, key: null })).status).toBe(204)
  expect((await api.entries()).map(({ action }) => action)).toEqual([
    "task.callback",
    "task.approve",
    "run.create",
    "workflow.deploy",
  ])
})

test("an approval has an entry with its comment", async () => {
  const api = await setup()
  await api.deploy("ask", { a: { executor: "approval" } })
  const id = (await api.call("POST", "/workflows/ask/runs")).body["id"] as string
  await untilWaiting(api, id, 1)
  await api.call("POST", `/runs/${id}/tasks/a/approve`, { body: { comment: "fine" } })
  expect(await api.last()).toMatchObject({ action: "task.approve", target: `${id}/a`, details: "fine", actor: "admin" })
})

test("changes that were not made have no entry", async () => {
  const api = await setup()
  await api.deploy("etl", { a: "true" })
  const id = await api.runToEnd("etl")
  const before = (await api.entries()).length
  await api.call("POST", "/workflows", { body: { name: "x" } })
  await api.call("DELETE", "/workflows/nothing")
  await api.call("POST", `/runs/${id}/cancel`)
  await api.call("POST", `/runs/${id}/retry`, { body: { plan: true } })
  await api.call("POST", "/jobs/01890a5d-ac96-774b-bcce-b302099a8057/cancel")
  expect(await api.entries()).toHaveLength(before)
})

test("sign-ins and sign-outs have entries", async () => {
  const api = await setup()
  const signedIn = await api.call("POST", "/ui/sign-in", { key: null, body: { key: ADMIN_KEY } })
  expect(await api.last()).toMatchObject({ action: "session.start", actor: "admin", result: "ok" })
  const cookie = String(signedIn.headers["set-cookie"]).split(";")[0]!
  await api.call("POST", "/ui/sign-out", { key: null, headers: { cookie } })
  expect(await api.last()).toMatchObject({ action: "session.end", actor: "admin" })
})

test("refusals have entries, but a caller without a credential has none", async () => {
  const api = await setup()
  const key = await api.newKey("read")
  await api.call("GET", "/runs", { key: null })
  await api.call("POST", "/workflows/etl/runs", { key })
  await vi.waitUntil(async () => (await api.last())?.result === "FORBIDDEN")
  expect(await api.last()).toMatchObject({ action: "run.create", actor: "read", target: "etl" })
  await api.call("GET", "/runs", { key: "wrong-wrong-wrong" })
  await vi.waitUntil(async () => (await api.last())?.result === "UNAUTHORIZED")
  expect(await api.last()).toMatchObject({ action: "GET /runs", actor: null, address: "127.0.0.1" })
  await api.call("POST", "/ui/sign-in", { key: null, body: { key: "wrong-wrong-wrong" } })
  await vi.waitUntil(async () => (await api.last())?.action === "session.start")
  expect((await api.entries()).filter(({ result }) => result !== "ok")).toHaveLength(3)
  expect(JSON.stringify(await api.entries())).not.toContain("wrong-wrong")
})

test("one address cannot fill the log with refusals", async () => {
  const api = await setup({ config: { failuresPerMinute: 1000 } })
  for (let i = 0; i < 80; i++) await api.call("GET", "/runs", { key: `wrong-wrong-${i}` })
  await vi.waitUntil(async () => (await api.entries()).length > 0)
  const all = await api.store.listAudit({ limit: 1000 })
  expect(all.length).toBeLessThanOrEqual(60)
})

test("the entries are a chain", async () => {
  const api = await setup()
  await api.deploy("etl", { a: "true" })
  await Promise.all(Array.from({ length: 10 }, () => api.call("POST", "/workflows/etl/runs")))
  const rows = await api.store.listAudit({ after: 0, limit: 100 })
  expect(rows).toHaveLength(11)
  expect(brokenEntry(null, rows)).toBeNull()
})
