// An audit entry belongs to the change of its request, and to no later one.

import { expect, onTestFinished, test, vi } from "vitest"
import type { HolderId } from "../../core/model/ids.ts"
import { setup as setupApi, untilWaiting } from "../testing/setup.ts"

const setup = async () => {
  const api = await setupApi()
  onTestFinished(() => api[Symbol.asyncDispose]())
  const entries = async (): Promise<string[]> =>
    (await api.store.listAudit({ after: 0, limit: 100 })).map(({ action, target }) => `${action} ${target}`)
  return Object.assign(api, { entries })
}

test("an approval is logged once, although it lets a sub-workflow start", async () => {
  const api = await setup()
  await api.deploy("child", { c: "true" })
  await api.deploy("ask", { a: { executor: "approval" }, b: { executor: "workflow", workflow: "child", depends_on: ["a"] } })
  const id = (await api.call("POST", "/workflows/ask/runs")).body["id"] as string
  await untilWaiting(api, id, 1)
  await api.call("POST", `/runs/${id}/tasks/a/approve`, { body: {} })
  await vi.waitUntil(async () => (await api.call("GET", `/runs/${id}`)).body["status"] === "success", { timeout: 10_000 })
  expect((await api.entries()).filter((entry) => entry.startsWith("task.approve"))).toHaveLength(1)
})

test("signing out with an unknown cookie logs nothing", async () => {
  const api = await setup()
  const before = await api.entries()
  for (let i = 0; i < 3; i++) await api.call("POST", "/ui/sign-out", { key: null, headers: { cookie: `ork_session=${i}` } })
  expect(await api.entries()).toEqual(before)
})

test("the rotation of an unknown key logs no success", async () => {
  const api = await setup()
  expect(
    (await api.call("POST", "/keys/01890a5d-ac96-774b-bcce-b302099a8057/rotate", { body: { overlap: "0s" } })).status,
  ).toBe(404)
  expect((await api.store.listAudit({ after: 0, limit: 100 })).filter(({ result }) => result === "ok")).toEqual([])
})

test("the token of a worker that registered with a removed key is not valid", async () => {
  const api = await setup()
  const id = "01890a5d-ac96-774b-bcce-b302099a8057" as HolderId
  const worker = { kind: "worker", name: "w", process: "", runId: null, leaseMs: 30_000 } as const
  await api.store.registerHolder({ ...worker, id, tokenHash: "hash", key: { id: "removed", hash: "h" } })
  expect(await api.store.workerToken(id)).toBeNull()
})

test("an expired key is not rotated", async () => {
  const api = await setup()
  const key = {
    id: "k",
    name: "k",
    scopes: ["read" as const],
    queues: null,
    limits: null,
    createdBy: null,
    hash: "old",
    expiresInMs: -1000,
  }
  await api.store.createKey(key)
  expect(await api.store.rotateKey({ id: "k", hash: "new", overlapMs: 0 })).toBeNull()
  expect(await api.store.findKey("new")).toBeNull()
})
