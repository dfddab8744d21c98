import { expect, test, vi } from "vitest"
import type { RunId } from "../../core/model/ids.ts"
import { setup } from "../testing/setup.ts"

test("a small or large output is sent as JSON, and a task without an output gets 404", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "echo hi", b: { command: "echo b", if: "false" } })
  const id = await api.runToEnd("etl")
  const small = await api.call("GET", `/runs/${id}/tasks/a/output`)
  expect([small.status, small.text]).toEqual([200, '{"task":"a"}'])
  expect(small.headers["content-type"]).toBe("application/json; charset=utf-8")
  expect((await api.call("GET", `/runs/${id}/tasks/b/output`)).status).toBe(404)

  const large = JSON.stringify({ rows: "x".repeat(3_000_000) })
  const key = `runs/${id}/a/large.json`
  await api.objects.put(key, large)
  const [row] = await api.store.listTasks({ runId: id as RunId, name: "a", limit: 2 })
  vi.spyOn(api.store, "listTasks").mockResolvedValue([{ ...row!, output: { key, bytes: large.length } }])
  expect((await api.call("GET", `/runs/${id}/tasks/a/output`)).text).toBe(large)
})

test("the output of a fan-out or group without an instance is that of all of it", async () => {
  await using api = await setup()
  await api.deploy("etl", {
    each: { foreach: [1, 2], command: "echo hi" },
    region: {
      foreach: ["eu"],
      tasks: { load: { command: "echo hi" }, rest: { depends_on: ["load"], foreach: [1], command: "echo hi" } },
    },
  })
  const id = await api.runToEnd("etl")
  const outputOf = async (task: string): Promise<unknown> =>
    JSON.parse((await api.call("GET", `/runs/${id}/tasks/${task}/output`)).text)
  expect(await outputOf("each")).toEqual([{ task: "each" }, { task: "each" }])
  expect(await outputOf("region")).toEqual([{ load: { task: "region.load" }, rest: [{ task: "region.rest" }] }])
  expect((await api.call("GET", `/runs/${id}/tasks/each/output?index=1`)).text).toBe('{"task":"each"}')
  expect((await api.call("GET", `/runs/${id}/tasks/none/output`)).status).toBe(404)
})
