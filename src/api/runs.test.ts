import { expect, test } from "vitest"
import { setup } from "./testing/setup.ts"

test("a run is triggered, seen, and its tasks listed with their attempts", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "say hello", b: { command: "say b", depends_on: ["a"] } })
  const made = await api.call("POST", "/api/v1/workflows/etl/runs", { body: {} })
  expect(made.status).toBe(201)
  expect(made.headers["location"]).toBe(`/api/v1/runs/${made.body["id"] as string}`)
  const id = made.body["id"] as string
  await api.engine.ended(id as never)
  const run = await api.call("GET", `/runs/${id}`)
  expect(run.body).toMatchObject({ id, workflow: "etl", status: "success", trigger: "manual", tasks: { success: 2 } })
  const tasks = await api.call("GET", `/runs/${id}/tasks`)
  expect(tasks.body["items"]).toMatchObject([
    { name: "a", status: "success", attempt: 1, attempts: [{ attempt: 1, status: "success" }] },
    { name: "b", status: "success" },
  ])
  const one = await api.call("GET", `/runs/${id}/tasks/b`)
  expect(one.body).toMatchObject({ name: "b", output: { task: "b" }, index: null })
})
