import { expect, test } from "vitest"
import { setup } from "../../testing/setup.ts"

const NESTED = {
  top: "echo hello",
  region: {
    depends_on: ["top"],
    foreach: ["eu", "us"],
    tasks: {
      load: {
        command: "echo load",
        input: { of: "${{ parent.item }}", at: "${{ parent.index }}", top: "${{ tasks.top.output.task }}" },
      },
      each: { depends_on: ["load"], foreach: [1, 2], command: "echo each" },
    },
  },
  last: { depends_on: ["region"], command: "echo last" },
}

test("tasks inside groups are listed and found by name and path, with their input and log", async () => {
  await using api = await setup()
  await api.deploy("nested", NESTED)
  const id = await api.runToEnd("nested")
  expect((await api.call("GET", `/runs/${id}`)).body).toMatchObject({ status: "success", tasks: { success: 8 } })
  const list = (await api.call("GET", `/runs/${id}/tasks?name=region.each`)).body["items"] as { path: string; index: number }[]
  expect(list.map(({ path, index }) => [path, index]).toSorted((a, b) => (a[0]! < b[0]! ? -1 : 1))).toEqual([
    ["0.0", 0],
    ["0.1", 1],
    ["1.0", 0],
    ["1.1", 1],
  ])
  const load = await api.call("GET", `/runs/${id}/tasks/region.load?path=1`)
  expect(load.body).toMatchObject({ path: "1", input: { of: "us", at: 1, top: "top" } })
  const each = await api.call("GET", `/runs/${id}/tasks/region.each?path=1.1`)
  expect(each.body).toMatchObject({ input: { item: 2, load: { task: "region.load" } } })
  expect((await api.call("GET", `/runs/${id}/tasks/region.each/logs?path=0.1`)).text).toContain("each")
  expect((await api.call("GET", `/runs/${id}/tasks/region.each?path=7.0`)).status).toBe(404)
})

test("a retry of one item, or of one task of an item, runs everything downstream again", async () => {
  await using api = await setup()
  await api.deploy("nested", NESTED)
  const id = await api.runToEnd("nested")
  const attempts = async (): Promise<string[]> => {
    const { body } = await api.call("GET", `/runs/${id}/tasks`)
    const items = body["items"] as { name: string; path: string; attempt: number }[]
    return items.filter(({ attempt }) => attempt > 1).map(({ name, path, attempt }) => `${name}[${path}] ${attempt}`)
  }
  expect((await api.call("POST", `/runs/${id}/tasks/region.each/retry?path=1.0`)).status).toBe(202)
  await api.engine.waitForRun(id as never)
  expect((await attempts()).toSorted()).toEqual(["last[] 2", "region.each[1.0] 2"])
  expect((await api.call("POST", `/runs/${id}/tasks/region/retry?path=0`)).status).toBe(202)
  await api.engine.waitForRun(id as never)
  expect((await attempts()).toSorted()).toEqual([
    "last[] 3",
    "region.each[0.0] 2",
    "region.each[0.1] 2",
    "region.each[1.0] 2",
    "region.load[0] 2",
  ])
  expect((await api.call("POST", `/runs/${id}/tasks/region/retry?path=9`)).status).toBe(404)
})

test("the plan of a retry names tasks inside groups with their paths", async () => {
  await using api = await setup()
  await api.deploy("nested", NESTED)
  const id = await api.runToEnd("nested")
  const plan = await api.call("POST", `/runs/${id}/retry`, { body: { from: "region.load", plan: true } })
  expect(plan.body).toEqual({
    again: ["region.load[0]", "region.each[0]", "region.load[1]", "region.each[1]", "last"],
    kept: ["top"],
  })
})

test("instances are found by their labels, which name the items of all levels", async () => {
  await using api = await setup()
  await api.deploy("nested", NESTED)
  const id = await api.runToEnd("nested")
  const list = (await api.call("GET", `/runs/${id}/tasks`)).body["items"] as { name: string; path: string; label: string }[]
  expect(list.map(({ name, path, label }) => `${name}[${path}] ${label}`).toSorted()).toEqual([
    "last[] null",
    "region.each[0.0] eu / 1",
    "region.each[0.1] eu / 2",
    "region.each[1.0] us / 1",
    "region.each[1.1] us / 2",
    "region.load[0] eu",
    "region.load[1] us",
    "top[] null",
  ])
  const label = encodeURIComponent("us / 2")
  expect((await api.call("GET", `/runs/${id}/tasks/region.each?label=${label}`)).body).toMatchObject({ path: "1.1" })
  expect((await api.call("GET", `/runs/${id}/tasks/region.load/logs?label=us`)).text).toContain("load")
  expect((await api.call("GET", `/runs/${id}/tasks/region.each?label=${label}&path=0.0`)).status).toBe(400)
  const unknown = await api.call("GET", `/runs/${id}/tasks/region.load?label=uk`)
  expect(unknown).toMatchObject({ status: 404, body: { error: { message: expect.stringContaining("no instance uk") } } })
  expect((await api.call("POST", `/runs/${id}/tasks/region/retry?label=eu`)).status).toBe(202)
  await api.engine.waitForRun(id as never)
  const [load] = (await api.call("GET", `/runs/${id}/tasks?name=region.load`)).body["items"] as { attempt: number }[]
  expect(load!.attempt).toBe(2)
})

test("a label that several instances have lists them", async () => {
  await using api = await setup()
  await api.deploy("twice", { each: { foreach: ["x", "y", "x"], command: "echo each" } })
  const id = await api.runToEnd("twice")
  const { status, body } = await api.call("GET", `/runs/${id}/tasks/each?label=x`)
  expect({ status, body }).toMatchObject({
    status: 400,
    body: { error: { message: expect.stringContaining("several instances of task each have it: 0, 2;") } },
  })
})
