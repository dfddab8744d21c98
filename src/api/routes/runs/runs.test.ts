import { expect, test } from "vitest"
import { setup } from "../../testing/setup.ts"

type Run = { id: string; status: string; created_at: string; params: object }

test("a triggered run is shown, and its tasks are listed with their attempts", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "echo hello", b: { command: "echo b", depends_on: ["a"] } })
  const triggered = await api.call("POST", "/api/v1/workflows/etl/runs", { body: {} })
  expect(triggered.status).toBe(201)
  const id = triggered.body["id"] as string
  expect(triggered.headers["location"]).toBe(`/api/v1/runs/${id}`)
  await api.engine.waitForRun(id as never)
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

test("a run is found by its workflow and number wherever its id is accepted", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "echo hello" })
  await api.deploy("other", { a: "echo hello" })
  await api.runToEnd("other")
  const first = await api.runToEnd("etl")
  const second = await api.runToEnd("etl")
  expect((await api.call("GET", `/runs/${second}`)).body).toMatchObject({ id: second, workflow: "etl", number: 2 })
  expect((await api.call("GET", "/runs/etl%232")).body).toMatchObject({ id: second })
  expect((await api.call("GET", "/runs/etl%231/tasks/a")).body).toMatchObject({ run_id: first })
  expect((await api.call("GET", "/runs/etl%231/tasks/a/logs")).text).toContain("hello")
  expect((await api.call("POST", "/runs/etl%231/retry", { body: { from: "a" } })).body).toMatchObject({ id: first })
  await api.engine.waitForRun(first as never)
  expect((await api.call("DELETE", "/runs/etl%231")).status).toBe(204)
  expect((await api.call("GET", "/runs/etl%231")).status).toBe(404)
})

test("a task shows its input: the item, the upstream outputs, and its own input, which overrides them", async () => {
  await using api = await setup()
  const each = {
    depends_on: ["a"],
    foreach: ["x", "y"],
    command: "true",
    input: { upper: "${{ item }}-${{ params.n }}", from: "${{ tasks.a.output.task }}" },
  }
  await api.deploy("etl", { a: "true", each, never: { command: "true", if: "false" } }, { params: { n: 7 } })
  const id = await api.runToEnd("etl")
  const input = async (task: string) => (await api.call("GET", `/runs/${id}/tasks/${task}`)).body["input"]
  expect(await input("each?index=1")).toEqual({ item: "y", a: { task: "a" }, upper: "y-7", from: "a" })
  expect(await input("a")).toEqual({})
  expect(await input("never")).toBeNull()
})

test("a definition in list form is deployed, and /run triggers it without a body", async () => {
  await using api = await setup()
  const definition = {
    id: "example_workflow",
    tasks: [
      { id: "A", command: "echo A", dependencies: [] },
      { id: "B", command: "echo B", dependencies: ["A"] },
      { id: "C", command: "echo C", dependencies: ["A"], max_retries: 2 },
      { id: "D", command: "echo D", dependencies: ["B", "C"] },
    ],
  }
  expect((await api.call("POST", "/workflows", { body: definition })).status).toBe(201)
  const run = await api.call("POST", "/workflows/example_workflow/run")
  expect(run.status).toBe(201)
  await api.engine.waitForRun(run.body["id"] as never)
  expect((await api.call("GET", `/runs/${run.body["id"] as string}`)).body["status"]).toBe("success")
  const tasks = (await api.call("GET", `/runs/${run.body["id"] as string}/tasks`)).body["items"] as { name: string }[]
  expect(tasks.map((task) => task.name)).toEqual(["A", "B", "C", "D"])
})

test("a failed task with retries left is pending until its retry", async () => {
  await using api = await setup()
  await api.deploy("flaky", { a: { command: "fail", retry: { max_attempts: 3, base_delay: "1h", backoff: "fixed" } } })
  const id = (await api.call("POST", "/workflows/flaky/runs")).body["id"] as string
  await expect.poll(async () => (await api.call("GET", `/runs/${id}/tasks/a`)).body["available_at"]).not.toBeNull()
  const { body } = await api.call("GET", `/runs/${id}/tasks/a`)
  expect(body).toMatchObject({ status: "pending", attempt: 1, max_attempts: 3, retries_left: 2 })
  expect(body["attempts"]).toMatchObject([{ attempt: 1, status: "failed", exit_code: 1, error: "it failed" }])
})

test("a repeated idempotency key returns the first run, from the body or from the header", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "true" }, { params: { n: 1 } })
  const first = await api.call("POST", "/workflows/etl/runs", { body: { idempotency_key: "k", params: { n: 2 } } })
  const again = await api.call("POST", "/workflows/etl/runs", { headers: { "idempotency-key": "k" } })
  const other = await api.call("POST", "/workflows/etl/runs", { body: { idempotency_key: "k2" } })
  expect([first.status, again.status, other.status]).toEqual([201, 200, 201])
  expect(again.body).toMatchObject({ id: first.body["id"], params: { n: 2 } })
  expect(other.body["id"]).not.toBe(first.body["id"])
})

test("a hundred concurrent requests with the same key create one run", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "true" })
  const responses = await Promise.all(
    Array.from({ length: 100 }, () => api.call("POST", "/workflows/etl/runs", { body: { idempotency_key: "k" } })),
  )
  expect(new Set(responses.map((each) => each.body["id"])).size).toBe(1)
  expect(responses.filter((each) => each.status === 201)).toHaveLength(1)
})

test("a run is cancelled, retried and removed, each only in a state that allows it", async () => {
  await using api = await setup()
  await api.deploy("slow", { a: "block", b: { command: "echo b", depends_on: ["a"] } })
  const id = (await api.call("POST", "/workflows/slow/runs")).body["id"] as string
  await api.executor.blocked("a")
  expect((await api.call("POST", `/runs/${id}/retry`)).status).toBe(409)
  expect((await api.call("POST", `/runs/${id}/cancel`)).status).toBe(202)
  await api.engine.waitForRun(id as never)
  expect((await api.call("GET", `/runs/${id}`)).body).toMatchObject({ status: "cancelled", tasks: { cancelled: 2 } })
  expect((await api.call("POST", `/runs/${id}/cancel`)).status).toBe(409)
  const plan = await api.call("POST", `/runs/${id}/retry`, { body: { plan: true } })
  expect([plan.status, plan.body]).toEqual([200, { again: ["a", "b"], kept: [] }])
  expect((await api.call("GET", `/runs/${id}`)).body["status"]).toBe("cancelled")
  expect((await api.call("POST", `/runs/${id}/retry`)).status).toBe(202)
  await api.executor.blocked("a")
  api.executor.release("a")
  await api.engine.waitForRun(id as never)
  expect((await api.call("GET", `/runs/${id}`)).body["status"]).toBe("success")
  expect((await api.call("GET", `/runs/${id}/tasks/a`)).body["attempts"]).toHaveLength(2)
  const prefix = `runs/${id}/`
  expect(await api.objects.list(prefix)).not.toEqual([])
  expect((await api.call("DELETE", `/runs/${id}`)).status).toBe(204)
  expect((await api.call("GET", `/runs/${id}`)).status).toBe(404)
  expect(await api.objects.list(prefix)).toEqual([])
})

test("one instance of a fan-out is shown and retried by its index", async () => {
  await using api = await setup()
  await api.deploy("many", { a: { command: "echo hi", foreach: ["x", "y", "z"] } })
  const id = await api.runToEnd("many")
  const one = await api.call("GET", `/runs/${id}/tasks/a?index=1`)
  expect(one.body).toMatchObject({ index: 1, path: "1", attempt: 1 })
  const planned = await api.call("POST", `/runs/${id}/tasks/a/retry?index=1`, { body: { plan: true } })
  expect([planned.status, planned.body["again"]]).toEqual([200, expect.arrayContaining([expect.stringContaining("a")])])
  expect((await api.call("GET", `/runs/${id}`)).body["finished_at"]).not.toBeNull()
  expect((await api.call("POST", `/runs/${id}/tasks/a/retry?index=1`)).status).toBe(202)
  await api.engine.waitForRun(id as never)
  const tasks = (await api.call("GET", `/runs/${id}/tasks?name=a`)).body["items"] as { attempt: number }[]
  expect(tasks.map((task) => task.attempt)).toEqual([1, 2, 1])
})

test("a paused run starts no task until it is resumed", async () => {
  await using api = await setup()
  await api.deploy("two", { a: "block", b: { command: "echo b", depends_on: ["a"] } })
  const id = (await api.call("POST", "/workflows/two/runs")).body["id"] as string
  await api.executor.blocked("a")
  expect((await api.call("POST", `/runs/${id}/pause`)).body).toMatchObject({ paused: true })
  api.executor.release("a")
  await expect.poll(async () => (await api.call("GET", `/runs/${id}`)).body["tasks"]).toMatchObject({ success: 1 })
  expect((await api.call("GET", `/runs/${id}/tasks/b`)).body["status"]).toBe("pending")
  expect((await api.call("POST", `/runs/${id}/resume`)).body).toMatchObject({ paused: false })
  await api.engine.waitForRun(id as never)
  expect((await api.call("GET", `/runs/${id}`)).body["status"]).toBe("success")
})

test("overriding a failed task to success makes its run a success, and a running task cannot be overridden", async () => {
  await using api = await setup()
  await api.deploy("bad", { a: "fail" })
  const id = await api.runToEnd("bad")
  const overridden = await api.call("POST", `/runs/${id}/tasks/a/mark`, {
    body: { status: "success", reason: "fixed manually" },
  })
  expect([overridden.status, overridden.body["status"]]).toEqual([200, "success"])
  expect((await api.call("GET", `/runs/${id}`)).body["status"]).toBe("success")
  const entries = (await api.call("GET", "/audit")).body["items"] as { action: string }[]
  // Entries of routes without the scope admin, such as that of the run, may be written later.
  const entry = entries.find(({ action }) => action === "task.mark")
  expect(entry).toMatchObject({ target: `${id}/a`, details: "success: fixed manually" })
  await api.deploy("slow", { a: "block" })
  const slow = (await api.call("POST", "/workflows/slow/runs")).body["id"] as string
  await api.executor.blocked("a")
  const running = await api.call("POST", `/runs/${slow}/tasks/a/mark`, { body: { status: "failed", reason: "no" } })
  expect([running.status, running.body.error!.code]).toEqual([409, "CONFLICT"])
})

test("pages of runs neither skip nor repeat a run while runs are added", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "true" })
  const trigger = async () => (await api.call("POST", "/workflows/etl/runs")).body as Run
  const created: Run[] = []
  for (let i = 0; i < 25; i++) created.push(await trigger())
  const seen: string[] = []
  let cursor: string | null = null
  do {
    const query: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`
    const { body } = await api.call("GET", `/runs?limit=7${query}`)
    seen.push(...(body["items"] as Run[]).map((run) => run.id))
    cursor = body["next_cursor"] as string | null
    expect(body["has_more"]).toBe(cursor !== null)
    await trigger()
  } while (cursor !== null)
  const order = (a: Run, b: Run): number =>
    a.created_at === b.created_at ? (a.id < b.id ? 1 : -1) : a.created_at < b.created_at ? 1 : -1
  expect(seen).toEqual(created.toSorted(order).map((run) => run.id))
  expect((await api.call("GET", "/runs")).body["items"]).toHaveLength(20)
})

test("runs are filtered by workflow and status", async () => {
  await using api = await setup()
  await api.deploy("good", { a: "true" })
  await api.deploy("bad", { a: "fail" })
  const [good, bad] = [await api.runToEnd("good"), await api.runToEnd("bad")]
  const ids = async (query: string) => ((await api.call("GET", `/runs?${query}`)).body["items"] as Run[]).map((run) => run.id)
  expect(await ids("workflow=good")).toEqual([good])
  expect(await ids("status=failed")).toEqual([bad])
  expect(await ids("workflow=good&status=failed")).toEqual([])
  expect(await ids("workflow=nothing")).toEqual([])
})

test("runs are filtered by trigger and by creation time", async () => {
  await using api = await setup()
  await api.deploy("good", { a: "true" })
  const id = await api.runToEnd("good")
  const { created_at } = (await api.call("GET", `/runs/${id}`)).body as unknown as Run
  const count = async (query: string) => ((await api.call("GET", `/runs?${query}`)).body["items"] as Run[]).length
  expect(await count("trigger=manual")).toBe(1)
  expect(await count("trigger=schedule")).toBe(0)
  expect(await count(`created_after=${created_at}`)).toBe(1)
  expect(await count(`created_before=${created_at}`)).toBe(0)
})
