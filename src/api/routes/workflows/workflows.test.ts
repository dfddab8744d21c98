import { expect, test } from "vitest"
import { setup } from "../../testing/setup.ts"

const YAML = { "content-type": "application/yaml" }

test("a deploy of YAML or JSON returns 201 for a new workflow and 200 for an unchanged one or a new version", async () => {
  await using api = await setup()
  const text = "name: etl\ndescription: nightly\ntasks:\n  a:\n    command: echo hi\n"
  const first = await api.call("POST", "/workflows", { body: text, headers: YAML })
  expect([first.status, first.body["version"], first.body["definition"]]).toEqual([201, 1, text])
  const same = await api.call("POST", "/workflows", { body: text, headers: YAML })
  expect([same.status, same.body["version"]]).toEqual([200, 1])
  const next = await api.call("POST", "/workflows", { body: { name: "etl", tasks: { a: { command: "echo ho" } } } })
  expect([next.status, next.body["version"]]).toEqual([200, 2])
  const versions = (await api.call("GET", "/workflows/etl/versions")).body["items"] as { version: number }[]
  expect(versions.map((version) => version.version)).toEqual([2, 1])
})

test("with If-None-Match: * an existing name is a conflict and nothing changes", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "echo hi" })
  const other = { name: "etl", tasks: { b: { command: "echo ho" } } }
  const rejected = await api.call("POST", "/workflows", { body: other, headers: { "if-none-match": "*" } })
  expect([rejected.status, rejected.body.error!.code]).toEqual([409, "CONFLICT"])
  expect((await api.call("GET", "/workflows/etl")).body).toMatchObject({ version: 1, tasks: [{ name: "a" }] })
  const fresh = await api.call("POST", "/workflows", { body: { ...other, name: "new" }, headers: { "if-none-match": "*" } })
  expect(fresh.status).toBe(201)
})

test("every problem of a definition is reported with its line, and nothing is stored", async () => {
  await using api = await setup()
  const body = "name: etl\ntasks:\n  a:\n    comand: x\n  b:\n    command: y\n    depends_on: [c]\n"
  const rejected = await api.call("POST", "/workflows", { body, headers: YAML })
  expect(rejected.status).toBe(400)
  expect(rejected.body.error!.details).toMatchObject([{ line: 4 }, { line: 7 }])
  const validated = await api.call("POST", "/workflows/validate", { body, headers: YAML })
  expect([validated.status, validated.body["valid"]]).toEqual([200, false])
  expect(validated.body["problems"]).toEqual(rejected.body.error!.details)
  expect((await api.call("GET", "/workflows")).body["items"]).toEqual([])
})

test("a task names a worker profile of the server, and an unknown profile is rejected with a suggestion", async () => {
  const profiles = { big: { queue: "heavy", labels: ["ram"] } }
  await using api = await setup({ config: { profiles } })
  const flow = (worker: string) => ({ name: "etl", tasks: { a: { command: "echo hi", worker } } })
  const rejected = await api.call("POST", "/workflows", { body: flow("bigg") })
  expect([rejected.status, rejected.body.error!.details]).toMatchObject([400, [{ path: "tasks.a.worker", suggestion: "big" }]])
  expect((await api.call("POST", "/workflows", { body: flow("big") })).status).toBe(201)
  const { body: run } = await api.call("POST", "/workflows/etl/runs", { body: {} })
  const { body: task } = await api.call("GET", `/runs/${run["id"] as string}/tasks/a`)
  expect(task["queue"]).toBe("heavy")
  const job = { name: "j", queue: "q", task: { command: "x", worker: "none" } }
  expect((await api.call("POST", "/jobs", { body: job })).status).toBe(400)
})

test("the runs of a removed workflow stay", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "echo hi" })
  const id = await api.runToEnd("etl")
  expect((await api.call("DELETE", "/workflows/etl")).status).toBe(204)
  expect((await api.call("GET", "/workflows/etl")).status).toBe(404)
  expect((await api.call("POST", "/workflows/etl/runs")).status).toBe(404)
  expect((await api.call("GET", `/runs/${id}`)).status).toBe(200)
  expect((await api.call("DELETE", "/workflows/etl")).status).toBe(404)
})

test("workflows are listed by name in pages and found by a part of the name or by tag", async () => {
  await using api = await setup()
  for (const name of ["c", "a", "b"]) await api.deploy(name, { t: "echo hi" }, { tags: [`tag-${name}`] })
  const names = async (query: string) => {
    const { body } = await api.call("GET", `/workflows?${query}`)
    return [(body["items"] as { name: string }[]).map((each) => each.name), body["next_cursor"]] as const
  }
  const [page, cursor] = await names("limit=2")
  expect(page).toEqual(["a", "b"])
  expect(await names(`limit=2&cursor=${encodeURIComponent(String(cursor))}`)).toEqual([["c"], null])
  expect((await names("tag=tag-b"))[0]).toEqual(["b"])
  expect((await names("search=c"))[0]).toEqual(["c"])
})

test("a paused schedule shows no ticks, and a resumed one shows the next five", async () => {
  await using api = await setup()
  await api.deploy("nightly", { a: "true" }, { schedule: [{ cron: "0 2 * * *", timezone: "Europe/Berlin" }] })
  const ticks = async () =>
    ((await api.call("GET", "/schedules")).body["items"] as { next_ticks: string[]; paused: boolean }[])[0]!
  expect((await ticks()).next_ticks).toHaveLength(5)
  expect((await api.call("POST", "/workflows/nightly/pause")).body["paused"]).toBe(true)
  expect(await ticks()).toMatchObject({ paused: true, next_ticks: [] })
  expect((await api.call("POST", "/workflows/nightly/resume")).body["paused"]).toBe(false)
  expect((await ticks()).next_ticks).toHaveLength(5)
})

test("a schedule of a function is created and changed, and replaces no other workflow", async () => {
  await using api = await setup()
  const put = (name: string, body: object) => api.call("PUT", `/schedules/${name}`, { body })
  const digest = { cron: "0 8 * * 1", function: "digest", params: { to: "team" }, timezone: "Europe/Berlin" }
  expect((await put("weekly", digest)).status).toBe(201)
  expect((await put("weekly", digest)).status).toBe(200)
  expect((await put("weekly", { ...digest, cron: "0 9 * * 1" })).body).toMatchObject({
    name: "weekly",
    version: 2,
    schedules: [{ cron: "0 9 * * 1", timezone: "Europe/Berlin", catchup: "none", overlap: "skip" }],
  })
  await api.deploy("etl", { a: "echo hi" })
  expect((await put("etl", digest)).body.error).toMatchObject({
    code: "CONFLICT",
    message: expect.stringContaining("etl-daily"),
  })
  for (const [field, value] of Object.entries({
    cron: "at eight",
    timezone: "Mars/X",
    function: "a b",
    overlap: "never",
    queue: "a b",
  })) {
    const { status, body } = await put("daily", { ...digest, [field]: value })
    expect([status, body.error!.details![0]!.path]).toEqual([400, field])
  }
  expect((await api.call("GET", "/workflows/daily")).status).toBe(404)
})

test("schedules list as many next ticks as requested, up to a limit", async () => {
  await using api = await setup()
  await api.deploy("hourly", { a: "true" }, { schedule: "0 * * * *" })
  const ticks = async (query: string) => {
    const { status, body } = await api.call("GET", `/schedules${query}`)
    return status === 200 ? (body["items"] as { next_ticks: string[] }[])[0]!.next_ticks.length : status
  }
  expect([await ticks(""), await ticks("?ticks=168"), await ticks("?ticks=201")]).toEqual([5, 168, 400])
  expect(await ticks("?ticks=200&limit=100")).toBe(400)
})

test("statistics by the minute are returned on request", async () => {
  const columns = {
    from: 0,
    success: [1],
    failed: [0],
    dispatch_p50_ms: [null],
    dispatch_p95_ms: [2],
    ready: [3],
    running: [null],
  }
  await using api = await setup({
    serverStats: { columns: async () => columns, endedPerMinute: (queue) => queue.length, objectsBytes: async () => 12 },
  })
  expect((await api.call("GET", "/stats")).body).toMatchObject({ series: null, objects_bytes: 12 })
  expect((await api.call("GET", "/stats?series=true")).body["series"]).toEqual({ ...columns, from: "1970-01-01T00:00:00.000Z" })
  const put = await api.call("PUT", "/queues/mail", { body: { paused: true } })
  expect(put.body).toMatchObject({ name: "mail", ended_per_minute: 4 })
})

test("a workflow shows its triggers, and a cycle of triggers is a conflict with its names", async () => {
  await using api = await setup()
  const flow = (name: string, triggers: object[]) => ({ name, triggers, tasks: { a: { command: "echo hi" } } })
  await api.call("POST", "/workflows", { body: flow("report", [{ after: ["load"] }, { path: "/in/*", every: "1m" }]) })
  const triggers = [
    { after: ["load"], when: "all", path: null, every_seconds: null, problem: null },
    { after: null, when: null, path: "/in/*", every_seconds: 60, problem: null },
  ]
  expect((await api.call("GET", "/workflows/report")).body["triggers"]).toEqual(triggers)
  expect((await api.call("GET", "/workflows")).body["items"]).toMatchObject([{ name: "report", triggers }])
  const rejected = await api.call("POST", "/workflows", { body: flow("load", [{ after: ["report"] }]) })
  expect([rejected.status, rejected.body.error!.code]).toEqual([409, "CONFLICT"])
  expect(rejected.body.error!.message).toContain("load → report → load")
  expect((await api.call("GET", "/workflows/load")).status).toBe(404)
})
