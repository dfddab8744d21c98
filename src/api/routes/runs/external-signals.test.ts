import { expect, test, vi } from "vitest"
import { setup, untilWaiting } from "../../testing/setup.ts"

const startWaiting = async (tasks: { [task: string]: unknown }) => {
  const api = await setup()
  await api.deploy("approvals", tasks)
  const { body } = await api.call("POST", "/workflows/approvals/runs")
  const id = body["id"] as string
  await untilWaiting(api, id, 1)
  return { api, id, at: `/runs/${id}/tasks` }
}

test("a task that waits for approval shows it, and its output names the key that approved it", async () => {
  const { api, id, at } = await startWaiting({
    ask: { executor: "approval", message: "Ship it?", timeout: "1h", default: "reject" },
  })
  await using _ = api
  const shown = (await api.call("GET", `${at}/ask`)).body
  expect(shown).toMatchObject({
    status: "running",
    waiting: { kind: "approval", message: "Ship it?", default: "reject", until: expect.any(String) as string },
  })
  const key = await api.newKey("trigger")
  const { status, body } = await api.call("POST", `${at}/ask/approve`, { body: { comment: "fine" }, key })
  expect(status).toBe(200)
  expect(body).toMatchObject({
    status: "success",
    waiting: null,
    output: { approved: true, comment: "fine", by: "trigger", at: expect.any(String) as string },
  })
  expect((await api.engine.waitForRun(id as never)).status).toBe("success")
  const again = await api.call("POST", `${at}/ask/reject`)
  expect(again).toMatchObject({ status: 409, body: { error: { code: "CONFLICT" } } })
  expect(again.text).toContain("does not wait for approval: it has ended as success")
})

test("a rejection fails the task with its comment", async () => {
  const { api, id, at } = await startWaiting({ ask: { executor: "approval" } })
  await using _ = api
  expect(await api.call("POST", `${at}/ask/reject`, { body: { comment: "no" } })).toMatchObject({
    status: 200,
    body: { status: "failed", error: "no", output: { approved: false, by: "admin" } },
  })
  expect((await api.engine.waitForRun(id as never)).status).toBe("failed")
})

test("one instance of several is approved by its index", async () => {
  const api = await setup()
  await using _ = api
  await api.deploy("many", { ask: { executor: "approval", foreach: ["a", "b"] } })
  const id = (await api.call("POST", "/workflows/many/runs")).body["id"] as string
  await untilWaiting(api, id, 2)
  expect((await api.call("POST", `/runs/${id}/tasks/ask/approve`)).status).toBe(400)
  expect((await api.call("POST", `/runs/${id}/tasks/ask/approve`, { body: { index: 1 } })).body).toMatchObject({ index: 1 })
  expect((await api.call("GET", `/runs/${id}/tasks/ask?index=0`)).body).toMatchObject({ status: "running" })
})

test("a key with the scope read cannot approve", async () => {
  const { api, at } = await startWaiting({ ask: { executor: "approval" } })
  await using _ = api
  expect((await api.call("POST", `${at}/ask/approve`, { key: await api.newKey("read") })).status).toBe(403)
})

test("a callback finishes deferred work, requires no key and works once", async () => {
  const { api, id, at } = await startWaiting({ far: { command: "defer", defer: true } })
  await using _ = api
  const url = api.executor.callbacks.get("far")!
  expect(url).toMatch(/^http:\/\/ork\.test\/api\/v1\/callbacks\/[0-9a-f-]+$/)
  const path = new URL(url).pathname
  expect((await api.call("GET", `${at}/far`)).body).toMatchObject({ waiting: { kind: "callback", until: null } })
  const callback = { body: { status: "success", output: { rows: 3 } }, key: null }
  expect((await api.call("POST", path, callback)).status).toBe(204)
  await api.engine.waitForRun(id as never)
  expect((await api.call("GET", `${at}/far`)).body).toMatchObject({ status: "success", output: { rows: 3 } })
  expect((await api.call("POST", path, callback)).status).toBe(409)
  const forged = path.replace(/.$/, (last) => (last === "0" ? "1" : "0"))
  expect((await api.call("POST", forged, callback)).status).toBe(404)
})

test("overriding the outcome of a waiting task lets its run continue", async () => {
  const { api, id, at } = await startWaiting({
    ask: { executor: "approval" },
    after: { command: "echo hi", depends_on: ["ask"] },
  })
  await using _ = api
  const overridden = await api.call("POST", `${at}/ask/mark`, { body: { status: "success", reason: "approved by phone" } })
  expect(overridden).toMatchObject({ status: 200, body: { status: "success", waiting: null } })
  expect((await api.engine.waitForRun(id as never)).status).toBe("success")
})

test("overriding the outcome of a workflow task cancels its child run", async () => {
  const api = await setup()
  await using _ = api
  await api.deploy("child", { ask: { executor: "approval" } })
  await api.deploy("parent", { sub: { executor: "workflow", workflow: "child" } })
  const id = (await api.call("POST", "/workflows/parent/runs")).body["id"] as string
  const children = async () => (await api.call("GET", "/runs?workflow=child")).body["items"] as { id: string; status: string }[]
  await vi.waitUntil(async () => (await children()).length === 1)
  const [child] = await children()
  expect((await api.call("GET", `/runs/${child!.id}`)).body).toMatchObject({
    trigger: "workflow",
    parent: { run_id: id, task: "sub" },
  })
  await api.call("POST", `/runs/${id}/tasks/sub/mark`, { body: { status: "success", reason: "enough" } })
  expect((await api.engine.waitForRun(id as never)).status).toBe("success")
  expect((await api.engine.waitForRun(child!.id as never)).status).toBe("cancelled")
})

test("a job cannot have an executor that waits", async () => {
  const api = await setup()
  await using _ = api
  const body = { name: "j", queue: "q", task: { executor: "sleep", duration: "1s" } }
  expect(await api.call("POST", "/jobs", { body })).toMatchObject({
    status: 400,
    body: { error: { details: [{ path: "task.executor" }] } },
  })
})
