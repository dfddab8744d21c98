import { expect, test } from "vitest"
import { setup } from "../../testing/setup.ts"

const NESTED = {
  top: "echo hello",
  region: {
    depends_on: ["top"],
    foreach: ["eu", "us"],
    tasks: {
      load: { command: "echo load" },
      each: { depends_on: ["load"], foreach: [1, 2], command: "echo each" },
    },
  },
  none: { foreach: [], command: "echo never" },
  last: { depends_on: ["region"], if: "false", command: "echo last" },
}

type Row = Record<string, unknown>

test("the graph of a run has every task with its counts, status and times", async () => {
  await using api = await setup()
  await api.deploy("nested", NESTED)
  const id = await api.runToEnd("nested")
  const { body } = await api.call("GET", `/runs/${id}/graph`)
  expect(body).toMatchObject({ run_id: id, workflow: "nested", version: 1 })
  const tasks = new Map((body["tasks"] as Row[]).map((task) => [task["name"] as string, task]))
  expect([...tasks.keys()].toSorted()).toEqual(["last", "none", "region", "region.each", "region.load", "top"])
  expect(tasks.get("region.each")).toMatchObject({
    group: "region",
    depends_on: ["region.load"],
    status: "success",
    counts: { success: 4, pending: 0 },
  })
  expect(tasks.get("region")).toMatchObject({ status: "success", counts: { success: 0 } })
  expect(tasks.get("none")).toMatchObject({ status: "success", counts: { success: 0 } })
  expect(tasks.get("last")).toMatchObject({ status: "skipped", counts: { skipped: 1 } })
  const { started_at, finished_at } = tasks.get("region.load")! as Record<string, string>
  expect(Date.parse(started_at!)).toBeLessThanOrEqual(Date.parse(finished_at!))
})

test("instances are listed in pages, in the order of the tasks in the graph, with their past attempts", async () => {
  await using api = await setup()
  await api.deploy("nested", NESTED)
  const id = await api.runToEnd("nested")
  await api.call("POST", `/runs/${id}/tasks/region.each/retry?path=1.0`)
  await api.engine.waitForRun(id as never)
  const found: Row[] = []
  let cursor = ""
  do {
    const { body } = await api.call("GET", `/runs/${id}/instances?limit=3${cursor}`)
    const items = body["items"] as Row[]
    expect(items.length).toBeLessThanOrEqual(3)
    found.push(...items)
    cursor = body["next_cursor"] === null ? "" : `&cursor=${encodeURIComponent(body["next_cursor"] as string)}`
  } while (cursor !== "")
  expect(found.map(({ name, path }) => `${String(name)}[${String(path)}]`)).toEqual([
    "top[]",
    "last[]",
    "region.load[0]",
    "region.load[1]",
    "region.each[0.0]",
    "region.each[0.1]",
    "region.each[1.0]",
    "region.each[1.1]",
  ])
  expect(found[6]).toMatchObject({ attempt: 2, status: "success", past: [{ attempt: 1, status: "success" }] })
  expect(found[5]).toMatchObject({ attempt: 1, past: [] })
  expect(Object.keys(found[0]!)).not.toContain("output")
  expect((await api.call("GET", `/runs/${id}/instances?cursor=bm9uZQ`)).status).toBe(400)
})

test("the grid has the latest runs, newest first, with a cell for each task of any of them", async () => {
  await using api = await setup()
  await api.deploy("daily", { a: "echo a", old: "fail" })
  const first = await api.runToEnd("daily")
  await api.deploy("daily", { a: "echo a", many: { depends_on: ["a"], parallel: 3, command: "echo b" } })
  const second = await api.runToEnd("daily")
  const third = await api.runToEnd("daily")
  const { body } = await api.call("GET", "/workflows/daily/grid")
  expect((body["tasks"] as Row[]).map(({ name }) => name)).toEqual(["a", "many", "old"])
  const runs = body["runs"] as { id: string; status: string; cells: (Row | null)[] }[]
  expect(runs.map(({ id, status }) => [id, status])).toEqual([
    [third, "success"],
    [second, "success"],
    [first, "failed"],
  ])
  expect(runs[0]!.cells).toMatchObject([{ status: "success" }, { status: "success", total: 3, failed: 0 }, null])
  expect(runs[2]!.cells).toMatchObject([{ status: "success" }, null, { status: "failed" }])
  const ids = async (query: string): Promise<string[]> =>
    ((await api.call("GET", `/workflows/daily/grid?${query}`)).body["runs"] as { id: string }[]).map(({ id }) => id)
  expect(await ids(`limit=2&run=${third}`)).toEqual([third, second])
  expect(await ids(`limit=2&run=${first}`)).toEqual([first])
  expect(await ids(`limit=1&run=${second}`)).toEqual([second])
  expect((await api.call("GET", "/workflows/nobody/grid")).status).toBe(404)
})
