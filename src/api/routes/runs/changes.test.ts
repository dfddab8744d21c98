// The API shows who created, started, cancelled, retried, paused, approved or changed something.

import { expect, onTestFinished, test } from "vitest"
import { setup as setupApi, untilWaiting } from "../../testing/setup.ts"

const setup = async () => {
  const api = await setupApi()
  onTestFinished(() => api[Symbol.asyncDispose]())
  const keyOf = async (name: string, ...scopes: string[]): Promise<string> =>
    (await api.call("POST", "/keys", { body: { name, scopes } })).body["key"] as string
  const changes = async (path: string) => (await api.call("GET", `${path}/changes`)).body["items"]
  return { api, changes, alice: await keyOf("alice", "admin"), bob: await keyOf("bob", "trigger") }
}

test("a version shows who deployed it, and the workflow who paused it", async () => {
  const { api, changes, alice } = await setup()
  const body = { name: "etl", tasks: { a: { command: "true" } } }
  await api.call("POST", "/workflows", { body, key: alice })
  await api.call("POST", "/workflows", { body: { ...body, description: "new" } })
  await api.call("POST", "/workflows", { body, key: null })
  await api.call("POST", "/workflows/etl/pause", { key: alice })
  const versions = (await api.call("GET", "/workflows/etl/versions")).body["items"]
  expect(versions).toMatchObject([
    { version: 2, created_by: "admin" },
    { version: 1, created_by: "alice" },
  ])
  expect(await changes("/workflows/etl")).toMatchObject([
    { action: "workflow.pause", by: "alice", task: null },
    { action: "workflow.deploy", by: "admin", details: "version 2" },
    { action: "workflow.deploy", by: "alice", details: "version 1" },
  ])
})

test("a run shows who started, paused, approved, cancelled and retried it, and nothing of other runs", async () => {
  const { api, changes, alice, bob } = await setup()
  await api.deploy("ask", { a: { executor: "approval" }, b: { command: "block", depends_on: ["a"] } })
  const start = async () => (await api.call("POST", "/workflows/ask/runs", { key: bob })).body["id"] as string
  const [id, other] = [await start(), await start()]
  await untilWaiting(api, id, 1)
  await api.call("POST", `/runs/${id}/pause`, { key: alice })
  await api.call("POST", `/runs/${id}/resume`, { key: alice })
  await api.call("POST", `/runs/${id}/tasks/a/approve`, { key: bob, body: { comment: "fine" } })
  await api.call("POST", `/runs/${other}/cancel`, { key: bob })
  await api.executor.blocked("b")
  await api.call("POST", `/runs/${id}/cancel`, { key: alice })
  await api.engine.waitForRun(id as never)
  await api.call("POST", `/runs/${id}/retry`, { key: bob })
  expect(await changes(`/runs/${id}`)).toMatchObject([
    { action: "run.retry", by: "bob" },
    { action: "run.cancel", by: "alice" },
    { action: "task.approve", by: "bob", task: "a", details: "fine" },
    { action: "run.resume", by: "alice" },
    { action: "run.pause", by: "alice" },
    { action: "run.create", by: "bob", task: null },
  ])
  const page = await api.call("GET", `/runs/${id}/changes?limit=2`, { key: bob })
  expect(page.body).toMatchObject({ has_more: true, items: [{ action: "run.retry" }, { action: "run.cancel" }] })
  const rest = await api.call("GET", `/runs/${id}/changes?limit=9&cursor=${page.body["next_cursor"] as string}`)
  expect(rest.body["items"]).toHaveLength(4)
  expect(page.text).not.toContain("127.0.0.1")
  await api.call("POST", `/runs/${id}/cancel`)
})

test("a job shows who created and cancelled it", async () => {
  const { api, changes, alice, bob } = await setup()
  const { body } = await api.call("POST", "/jobs", { body: { name: "mail", queue: "nobody" }, key: bob })
  expect(body["created_by"]).toBe("bob")
  const id = body["id"] as string
  await api.call("POST", `/jobs/${id}/cancel`, { key: alice })
  expect((await api.call("GET", `/jobs/${id}`)).body["created_by"]).toBe("bob")
  expect(await changes(`/jobs/${id}`)).toMatchObject([
    { action: "job.cancel", by: "alice" },
    { action: "job.create", by: "bob" },
  ])
})

test("a queue with the name of a workflow is not mistaken for it", async () => {
  const { api, changes } = await setup()
  await api.deploy("mail", { a: "true" })
  await api.call("PUT", "/queues/mail", { body: { paused: true } })
  await api.deploy("mail-2", { a: "true" })
  expect(await changes("/workflows/mail")).toMatchObject([{ action: "workflow.deploy" }])
})
