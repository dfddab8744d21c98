// Jobs over HTTP: validation, changes, deletion, search and cursors. http/bad-input.test.ts tests the limits of their fields.

import { expect, test, vi } from "vitest"
import { DEFAULT_JOB_RETRY } from "../../../core/rules/jobs/jobs.ts"
import { setup } from "../../testing/setup.ts"

type Job = { id: string; status: string; priority: number; created_at: string; dependencies: string[] }

const setupJobs = async () => {
  const api = await setup()
  const create = async (fields: object = {}): Promise<Job> => {
    const { status, body, text } = await api.call("POST", "/api/v1/jobs", { body: { name: "job", queue: "mail", ...fields } })
    if (status !== 201) throw new Error(text)
    return body as unknown as Job
  }
  const search = async (query: string) => {
    const { body } = await api.call("GET", `/api/v1/jobs?${query}`)
    return { items: body["items"] as Job[], cursor: body["next_cursor"] as string | null, more: body["has_more"] }
  }
  return Object.assign(api, { create, search })
}

test("a new job has the specified fields and defaults", async () => {
  await using api = await setupJobs()
  const created = await api.create({ payload: { to: "x" } })
  expect(created).toMatchObject({
    name: "job",
    queue: "mail",
    payload: { to: "x" },
    priority: 5,
    status: "READY",
    dependencies: [],
    retry_policy: DEFAULT_JOB_RETRY,
    attempt_count: 0,
  })
  expect((await api.call("GET", `/api/v1/jobs/${created.id}`)).body).toEqual(created)
  expect(await api.create({ payload: "x".repeat(65_534) })).toMatchObject({ status: "READY" })
})

test("a job waits for its dependencies, and ids may be in upper case", async () => {
  await using api = await setupJobs()
  const first = await api.create()
  const second = await api.create({ dependencies: [first.id.toUpperCase(), first.id] })
  expect(second).toMatchObject({ status: "PENDING", dependencies: [first.id] })
})

test("a client may choose the id of a job, and a repeated id is a conflict", async () => {
  await using api = await setupJobs()
  const id = "01890a5d-ac96-774b-bcce-b302099a8057"
  expect((await api.create({ id })).id).toBe(id)
  const again = await api.call("POST", "/jobs", { body: { id, name: "job", queue: "mail" } })
  expect([again.status, again.body.error!.code]).toEqual([409, "CONFLICT"])
})

test("an update changes the given fields and keeps the others", async () => {
  await using api = await setupJobs()
  const { id } = await api.create({ payload: 1, priority: 3 })
  const { status, body } = await api.call("PUT", `/jobs/${id}`, { body: { priority: 9, name: "new" } })
  expect([status, body["priority"], body["name"], body["payload"]]).toEqual([200, 9, "new", 1])
})

test("the body of a GET can be sent back, with changes of other fields", async () => {
  await using api = await setupJobs()
  const first = await api.create()
  const { id } = await api.create({ dependencies: [first.id], task: { command: "true" } })
  const current = (await api.call("GET", `/jobs/${id}`)).body
  const same = await api.call("PUT", `/jobs/${id}`, { body: current })
  expect([same.status, { ...same.body, updated_at: null }]).toEqual([200, { ...current, updated_at: null }])
  const changed = await api.call("PUT", `/jobs/${id}`, { body: { ...same.body, priority: 8 } })
  expect([changed.status, changed.body["priority"]]).toEqual([200, 8])
  for (const change of [
    { status: "READY" },
    { attempt_count: 1 },
    { task: { command: "false" } },
    { created_at: "2020-01-01" },
  ]) {
    const rejected = await api.call("PUT", `/jobs/${id}`, { body: { ...changed.body, ...change } })
    expect([rejected.status, rejected.body.error!.message]).toEqual([400, expect.stringContaining("cannot be changed")])
  }
})

test("unchanged dependencies are accepted also after the job is READY", async () => {
  await using api = await setupJobs()
  const first = await api.create({ task: { command: "true" }, queue: "run" })
  const { id } = await api.create({ dependencies: [first.id] })
  await vi.waitUntil(async () => (await api.call("GET", `/jobs/${id}`)).body["status"] === "READY")
  const body = { dependencies: [first.id], priority: 2 }
  expect((await api.call("PUT", `/jobs/${id}`, { body })).status).toBe(200)
  expect((await api.call("PUT", `/jobs/${id}`, { body: { dependencies: [] } })).status).toBe(409)
})

test("a partial retry policy is merged with the one of the job", async () => {
  await using api = await setupJobs()
  const { id } = await api.create({ retry_policy: { max_attempts: 7, base_delay_seconds: 50 } })
  const put = (retry_policy: object) => api.call("PUT", `/jobs/${id}`, { body: { retry_policy } })
  expect((await put({ backoff_strategy: "FIXED" })).body["retry_policy"]).toEqual({
    max_attempts: 7,
    backoff_strategy: "FIXED",
    base_delay_seconds: 50,
    max_delay_seconds: 300,
  })
  const bad = await put({ max_delay_seconds: 49 })
  expect([bad.status, bad.body.error!.message]).toEqual([
    400,
    expect.stringContaining("must not be less than base_delay_seconds"),
  ])
})

test("a search accepts bounds that no job reaches, and times without a zone as UTC", async () => {
  await using api = await setupJobs()
  const created = await api.create()
  const ids = async (query: string): Promise<unknown> =>
    ((await api.call("GET", `/jobs?${query}`)).body["items"] as { id: string }[] | undefined)?.map(({ id }) => id)
  expect(await ids("priority_min=0&priority_max=11")).toEqual([created.id])
  expect(await ids("priority_min=11")).toEqual([])
  const at = (ms: number): string => new Date(Date.parse(created.created_at) + ms).toISOString().slice(0, -1)
  expect(await ids(`created_after=${at(0)}&created_before=${at(1)}`)).toEqual([created.id])
  expect(await ids(`created_before=${at(0)}`)).toEqual([])
  expect(await ids("created_after=2026-02-30T10:00:00")).toBeUndefined()
})

test("an update that would create a cycle is a conflict and changes nothing", async () => {
  await using api = await setupJobs()
  const first = await api.create()
  const second = await api.create({ dependencies: [first.id] })
  const third = await api.create({ dependencies: [second.id] })
  const { status, body } = await api.call("PUT", `/jobs/${second.id}`, { body: { dependencies: [third.id] } })
  expect([status, body.error!.code]).toEqual([409, "CONFLICT"])
  expect(body.error!.message).toContain(third.id)
  expect((await api.call("GET", `/jobs/${second.id}`)).body["dependencies"]).toEqual([first.id])
})

test("a job can be deleted only if no other job depends on it", async () => {
  await using api = await setupJobs()
  const first = await api.create()
  const second = await api.create({ dependencies: [first.id] })
  const rejected = await api.call("DELETE", `/jobs/${first.id}`)
  expect([rejected.status, rejected.body.error!.code]).toEqual([409, "CONFLICT"])
  expect((await api.call("DELETE", `/jobs/${second.id}`)).status).toBe(204)
  expect((await api.call("DELETE", `/jobs/${first.id}`)).status).toBe(204)
  expect((await api.call("GET", `/jobs/${first.id}`)).status).toBe(404)
  expect((await api.call("DELETE", `/jobs/${first.id}`)).status).toBe(404)
})

test("a cancelled job is FAILED with the error cancelled and cannot be changed", async () => {
  await using api = await setupJobs()
  const { id } = await api.create()
  expect((await api.call("POST", `/jobs/${id}/cancel`)).body).toMatchObject({ status: "FAILED", error: "cancelled" })
  expect((await api.call("GET", `/jobs/${id}/result`)).body).toMatchObject({
    status: "FAILED",
    error: "cancelled",
    output: null,
  })
  for (const [method, url, body] of [
    ["PUT", `/jobs/${id}`, { priority: 1 }],
    ["POST", `/jobs/${id}/cancel`, {}],
  ] as const) {
    const { status, body: response } = await api.call(method, url, { body })
    expect([status, response.error!.code]).toEqual([409, "CONFLICT"])
  }
})

test("a batch is created completely or not at all, and its jobs may depend on each other", async () => {
  await using api = await setupJobs()
  const ids = ["01890a5d-ac96-774b-bcce-b302099a8051", "01890a5d-ac96-774b-bcce-b302099a8052"]
  const jobs = [
    { id: ids[0], name: "a", queue: "q" },
    { id: ids[1], name: "b", queue: "q", dependencies: [ids[0]] },
  ]
  const missing = { name: "c", queue: "q", dependencies: ["01890a5d-ac96-774b-bcce-b302099a8059"] }
  expect((await api.call("POST", "/jobs/batch", { body: { jobs: [...jobs, missing] } })).status).toBe(400)
  expect((await api.search("")).items).toEqual([])
  const created = await api.call("POST", "/jobs/batch", { body: { jobs } })
  expect(created.status).toBe(201)
  expect(created.body["items"]).toMatchObject([{ id: ids[0] }, { id: ids[1], dependencies: [ids[0]] }])
  const many = await api.call("POST", "/jobs/batch", {
    body: { jobs: Array.from({ length: 1001 }, () => ({ name: "x", queue: "q" })) },
  })
  expect([many.status, many.body.error!.code]).toEqual([400, "VALIDATION_ERROR"])
})

test("a search combines all given filters", async () => {
  await using api = await setupJobs()
  const low = await api.create({ priority: 2, queue: "a" })
  const high = await api.create({ priority: 8, queue: "b", dependencies: [low.id] })
  const ids = async (query: string) => (await api.search(query)).items.map((job) => job.id)
  expect(await ids("queue=a")).toEqual([low.id])
  expect(await ids("status=PENDING")).toEqual([high.id])
  expect(await ids("priority_min=3")).toEqual([high.id])
  expect(await ids("priority_max=2")).toEqual([low.id])
  expect(await ids("queue=a&priority_min=3")).toEqual([])
  expect(await ids("name=job&status=READY,FAILED")).toEqual([low.id])
  expect(await ids(`created_before=${low.created_at}`)).toEqual([])
  expect(await ids(`created_after=${low.created_at}`)).toContain(low.id)
})

test("pages are ordered by created_at DESC, id ASC, and the cursor is Base64 of {created_at_iso}|{id}", async () => {
  await using api = await setupJobs()
  const created: Job[] = []
  for (let i = 0; i < 12; i++) created.push(await api.create())
  const first = await api.search("limit=5")
  const last = first.items.at(-1)!
  expect(first.more).toBe(true)
  expect(Buffer.from(first.cursor!, "base64").toString()).toBe(`${last.created_at}|${last.id}`)
  await api.create()
  const rest = await api.search(`limit=100&cursor=${encodeURIComponent(first.cursor!)}`)
  expect([rest.more, rest.cursor]).toEqual([false, null])
  const order = (a: Job, b: Job): number =>
    a.created_at === b.created_at ? (a.id < b.id ? -1 : 1) : a.created_at < b.created_at ? 1 : -1
  expect([...first.items, ...rest.items].map((job) => job.id)).toEqual(created.toSorted(order).map((job) => job.id))
})

test("a job with a task of its own requires the scope author", async () => {
  await using api = await setupJobs()
  const key = await api.newKey("trigger")
  const body = { name: "x", queue: "q", task: { command: "echo hi" } }
  expect((await api.call("POST", "/jobs", { key, body })).status).toBe(403)
  expect((await api.call("POST", "/jobs/batch", { key, body: { jobs: [body] } })).status).toBe(403)
  expect((await api.call("POST", "/jobs", { key, body: { name: "x", queue: "q" } })).status).toBe(201)
  expect((await api.call("POST", "/jobs", { body })).body["task"]).toEqual({ command: "echo hi" })
})

test("a job with a task of its own runs, has a result and a log, and unblocks its dependents", async () => {
  await using api = await setupJobs()
  const first = await api.create({ task: { command: "echo working;block;echo done" }, payload: { n: 1 } })
  const second = await api.create({ task: { command: "true" }, dependencies: [first.id] })
  const status = async (id: string) => (await api.call("GET", `/jobs/${id}`)).body["status"]
  await api.executor.blocked("job")
  await expect.poll(() => status(first.id)).toBe("RUNNING")
  expect(await status(second.id)).toBe("PENDING")
  const log = api.call("GET", `/jobs/${first.id}/logs?follow=true`)
  await expect.poll(async () => (await api.call("GET", "/stats")).body["streams"]).toBe(1)
  api.executor.release("job")
  expect((await log).text).toBe("working\ndone\n")
  await expect.poll(() => status(second.id)).toBe("COMPLETED")
  const { body } = await api.call("GET", `/jobs/${first.id}/result`)
  expect(body).toMatchObject({ status: "COMPLETED", output: { task: "job" }, error: null, exit_code: 0 })
  expect((await api.call("GET", `/jobs/${first.id}/logs`)).text).toBe("working\ndone\n")
  const { items } = await api.search("status=COMPLETED")
  expect(items).toHaveLength(2)
  await api.call("DELETE", `/jobs/${second.id}`)
  expect(await api.objects.list(`jobs/${first.id}/`)).not.toEqual([])
  expect((await api.call("DELETE", `/jobs/${first.id}`)).status).toBe(204)
  expect(await api.objects.list(`jobs/${first.id}/`)).toEqual([])
})

test("a job that fails finally blocks its dependents", async () => {
  await using api = await setupJobs()
  const retry_policy = { max_attempts: 1 }
  const first = await api.create({ task: { command: "block;fail" }, retry_policy })
  const second = await api.create({ dependencies: [first.id] })
  const third = await api.create({ dependencies: [second.id] })
  await api.executor.blocked("job")
  api.executor.release("job")
  const statuses = () =>
    Promise.all([first, second, third].map(async ({ id }) => (await api.call("GET", `/jobs/${id}`)).body["status"]))
  await expect.poll(statuses).toEqual(["FAILED", "BLOCKED", "BLOCKED"])
})

test("a running job is cancelled when its process has exited, and deleted immediately", async () => {
  await using api = await setupJobs()
  const cancelled = await api.create({ task: { command: "block" } })
  await api.executor.blocked("job")
  expect((await api.call("POST", `/jobs/${cancelled.id}/cancel`)).status).toBe(202)
  await expect
    .poll(async () => (await api.call("GET", `/jobs/${cancelled.id}`)).body)
    .toMatchObject({ status: "FAILED", error: "cancelled" })
  const deleted = await api.create({ task: { command: "block" } })
  await api.executor.blocked("job")
  expect((await api.call("DELETE", `/jobs/${deleted.id}`)).status).toBe(204)
  expect((await api.call("GET", `/jobs/${deleted.id}`)).status).toBe(404)
})

test("a repeated idempotency key returns the first job with 200, in a batch too", async () => {
  await using api = await setupJobs()
  const body = { name: "welcome", queue: "mail", payload: 1, idempotency_key: "user-1" }
  const first = await api.call("POST", "/jobs", { body })
  const again = await api.call("POST", "/jobs", { body: { ...body, payload: 2 } })
  expect([first.status, again.status, again.text]).toEqual([201, 200, first.text])
  const jobs = [body, { ...body, name: "other" }]
  const batch = await api.call("POST", "/jobs/batch", { body: { jobs } })
  expect([batch.status, batch.body["items"]]).toMatchObject([201, [{ id: first.body["id"] }, { name: "other" }]])
  expect((await api.call("POST", "/jobs/batch", { body: { jobs } })).status).toBe(200)
  expect((await api.search("name=welcome")).items).toHaveLength(1)
})

test("a job has retries as tasks have them, a delay, a timeout, an expiry, a limit and a group", async () => {
  await using api = await setupJobs()
  const created = await api.create({
    retry: { max_attempts: 100, base_delay: "200ms", max_delay: "10m", jitter: true },
    delay: "5m",
    timeout: 30,
    expires: "1h",
    concurrency_key: "k",
    concurrency_limit: 3,
    limits: [{ key: "task:mail", cap: 2 }],
    group: "acme",
  })
  expect(created).toMatchObject({
    status: "READY",
    retry: { max_attempts: 100, backoff: "exponential", base_delay: "200ms", max_delay: "10m", jitter: true },
    max_attempts: 100,
    timeout: "30s",
    expires: "1h",
    concurrency_limit: 3,
    limits: [{ key: "task:mail", cap: 2 }],
    group: "acme",
    available_at: expect.any(String),
  })
  const at = "2100-01-01T00:00:00.000Z"
  expect(await api.create({ run_at: at })).toMatchObject({ available_at: at, retry: null, max_attempts: 3 })
})

test.each([
  ["delay", { delay: "5m", run_at: "2100-01-01" }],
  ["retry", { retry: { max_attempts: 2 }, retry_policy: {} }],
  ["retry.max_attempts", { retry: { max_attempts: 101 } }],
  ["retry.max_delay", { retry: { max_attempts: 2, base_delay: "2s", max_delay: "1s" } }],
  ["concurrency_limit", { concurrency_limit: 2 }],
  ["limits.0.cap", { limits: [{ key: "k", cap: 0 }] }],
  ["limits", { limits: Array.from({ length: 11 }, (_, i) => ({ key: `k${i}`, cap: 1 })) }],
  ["function", { function: "f", task: { command: "x" } }],
  ["function", { function: "a b" }],
  ["timeout", { timeout: 0 }],
  ["expires", { expires: "soon" }],
])("a job with an invalid %s is rejected", async (path, fields) => {
  await using api = await setupJobs()
  const { status, body } = await api.call("POST", "/jobs", { body: { name: "job", queue: "mail", ...fields } })
  expect([status, body.error!.details?.map((problem) => problem.path)]).toEqual([400, [path]])
})

test("a job that calls a function needs only the scope trigger, and waits for a worker that has it", async () => {
  await using api = await setupJobs()
  const key = await api.newKey("trigger")
  const call = { executor: "function", function: "send" }
  for (const fields of [{ function: "send" }, { task: call }]) {
    const { status, body } = await api.call("POST", "/jobs", { key, body: { name: "x", queue: "q", ...fields } })
    expect([status, body["task"]]).toEqual([201, call])
    const explained = await api.call("GET", `/jobs/${body["id"] as string}/explain`, { key: await api.newKey("read") })
    expect(explained.body["items"]).toMatchObject([
      { status: "READY", sentence: expect.stringContaining("no live worker has the function send") },
    ])
  }
  const more = { name: "x", queue: "q", task: { ...call, env: { A: "b" } } }
  expect((await api.call("POST", "/jobs", { key, body: more })).status).toBe(403)
})

test("a job explains what it waits for", async () => {
  await using api = await setupJobs()
  const explain = async ({ id }: Job): Promise<unknown> =>
    ((await api.call("GET", `/jobs/${id}/explain`)).body["items"] as { sentence: string }[])[0]!.sentence
  const handled = await api.create()
  expect(await explain(handled)).toMatch(/^job waits because nobody handles it: .* has a handler for the queue mail/)
  expect(await explain(await api.create({ name: "below", dependencies: [handled.id] }))).toBe("below waits for job (READY).")
  expect(await explain(await api.create({ run_at: "2100-01-01" }))).toBe("job waits until 2100-01-01T00:00:00.000Z.")
  await api.call("POST", `/jobs/${handled.id}/cancel`)
  expect(await explain(handled)).toBe("job failed before its first attempt: cancelled.")
})

test("a FAILED job can be retried, and only a FAILED one", async () => {
  await using api = await setupJobs()
  const { id } = await api.create()
  expect((await api.call("POST", `/jobs/${id}/retry`)).body.error!.message).toBe(
    "the job is READY; only a FAILED job can be retried",
  )
  await api.call("POST", `/jobs/${id}/cancel`)
  const { status, body } = await api.call("POST", `/jobs/${id}/retry`)
  expect([status, body["status"], body["error"]]).toEqual([202, "READY", null])
})

test("a request for a result waits for the end of the job, or for the given time", async () => {
  await using api = await setupJobs()
  const { id } = await api.create({ task: { command: "block" } })
  await api.executor.blocked("job")
  expect((await api.call("GET", `/jobs/${id}/result?wait=10ms`)).body).toMatchObject({ status: "RUNNING", output: null })
  const waiting = api.call("GET", `/jobs/${id}/result?wait=30s`)
  api.executor.release("job")
  expect((await waiting).body).toMatchObject({ status: "COMPLETED", output: { task: "job" } })
  expect((await api.call("GET", `/jobs/${id}/result?wait=61s`)).status).toBe(400)
})

test("a queue is found as long as jobs of it are kept", async () => {
  await using api = await setupJobs()
  const { id } = await api.create({ queue: "emails", task: { command: "true" } })
  await api.call("GET", `/jobs/${id}/result?wait=30s`)
  expect((await api.call("GET", "/queues/emails")).body).toMatchObject({ name: "emails", ready: 0, running: 0 })
  await api.call("DELETE", `/jobs/${id}`)
  expect((await api.call("GET", "/queues/emails")).status).toBe(404)
})

test("events of jobs have the name and the queue of the job", async () => {
  await using api = await setupJobs()
  const { id } = await api.create({ task: { command: "true" } })
  await api.call("GET", `/jobs/${id}/result?wait=30s`)
  const { events } = await api.store.readEvents({ after: "0.0", limit: 10 })
  expect(events.filter(({ jobId }) => jobId === id)).toMatchObject(
    ["READY", "RUNNING", "COMPLETED"].map((status) => ({ name: "job", queue: "mail", status })),
  )
})

test("a job that no worker handles says so, in its explanation and in the log", async () => {
  await using own = await setup()
  const { body: job } = await own.call("POST", "/jobs", { body: { name: "mail", queue: "mails" } })
  const { body } = await own.call("GET", `/jobs/${String(job["id"])}/explain`)
  expect(body["items"]).toMatchObject([{ status: "READY", sentence: expect.stringContaining("nobody handles it") as string }])
  await vi.waitUntil(() => own.logged.some((line) => line.includes("no live worker handles the jobs of a queue")))
  expect((await own.call("GET", "/jobs/018f0000-0000-7000-8000-000000000000/explain")).status).toBe(404)
})
