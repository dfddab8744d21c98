// Every route is asked at least once with success and its answers, and those of its refusals, fit the document.

import { expect, test } from "vitest"
import { encodeFrame } from "../../protocol/wire/log-frames.ts"
import { signatureOf } from "../../protocol/wire/signature.ts"
import type { OpenApi } from "./openapi.ts"
import { ROUTES } from "../routes/table.ts"
import { DocumentChecker } from "../testing/document.ts"
import { type TestResponse, type CallOptions, setup, untilWaiting } from "../testing/setup.ts"
import { makeBundle } from "../../objects/bundles.ts"

test("the document is valid OpenAPI 3.1 in shape, and says what the routes check", async () => {
  await using api = await setup()
  const { status, body, headers } = await api.call("GET", "/openapi.json", { key: null })
  expect(status).toBe(200)
  expect(headers["content-type"]).toContain("application/json")
  const document = body as unknown as OpenApi
  expect(document.openapi).toBe("3.1.0")
  const ids = Object.values(document.paths).flatMap((methods) => Object.values(methods).map((each) => each.operationId))
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids).toHaveLength(ROUTES.length)
  const refs = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map((match) => match[1]!)
  expect(refs.length).toBeGreaterThan(20)
  for (const name of refs) expect(document.components.schemas).toHaveProperty(name)
  const limit = document.paths["/runs"]!["get"]!.parameters.find((parameter) => parameter.name === "limit")
  expect(limit?.schema).toMatchObject({ type: "integer", minimum: 1, maximum: 100, default: 20 })
})

test("every route answers as the document says", async () => {
  await using api = await setup({ lanes: ["q:default"], push: () => true })
  const document = (await api.call("GET", "/openapi.json")).body as unknown as OpenApi
  const checker = new DocumentChecker(document)
  const succeeded = new Set<string>()

  /** `path` as in the table; `at` holds the values of its params and the query. */
  const ask = async (method: string, path: string, at: Record<string, string> = {}, options: CallOptions = {}) => {
    const { query = "", ...params } = at
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""))
    const prefix = path.startsWith("/ui/") ? "" : "/api/v1"
    const answer = await api.call(method, `${prefix}${filled}${query}`, options)
    expect(answer.status, `${method} ${filled}: ${answer.text}`).toBeLessThan(500)
    const type = String(answer.headers["content-type"] ?? "")
    expect(checker.problem(method, path, { status: answer.status, type, body: answer.body })).toBeNull()
    if (answer.status < 400) succeeded.add(`${method} ${path}`)
    return answer
  }

  const definition = {
    name: "etl",
    description: "a flow",
    tags: ["x"],
    params: { day: { type: "string", default: "today", description: "the day" } },
    schedule: { cron: "0 2 * * *", jitter: "30s" },
    webhook: { secret: "HOOK" },
    tasks: { a: { command: "say hello" }, b: { command: "say b", depends_on: ["a"], retries: 2 } },
  }
  const etl = { name: "etl" }
  await ask("POST", "/workflows", {}, { body: definition })
  await ask("POST", "/workflows", {}, { body: definition })
  await ask("POST", "/workflows", {}, { body: { name: "etl" } })
  await ask("POST", "/workflows", {}, { body: definition, headers: { "if-none-match": "*" } })
  await ask("POST", "/workflows/validate", {}, { body: definition })
  await ask("POST", "/workflows/validate", {}, { body: { nam: 1 } })
  const { hash, bytes: files } = makeBundle([{ path: "a.ts", bytes: Buffer.from("1"), executable: false }])
  const asBytes = { headers: { "content-type": "application/octet-stream" } }
  await ask("PUT", "/bundles/{hash}", { hash }, { ...asBytes, body: files })
  await ask("PUT", "/bundles/{hash}", { hash }, { ...asBytes, body: Buffer.from("other") })
  await ask("GET", "/bundles/{hash}", { hash })
  await ask("GET", "/bundles/{hash}", { hash: "0".repeat(64) })
  await ask("GET", "/workflows/{name}", etl)
  await ask("GET", "/workflows/{name}", { name: "nothing" })
  await ask("GET", "/workflows/{name}/versions", etl)
  await ask("GET", "/workflows/{name}/grid", etl)
  await ask("POST", "/workflows/{name}/pause", etl)
  await ask("POST", "/workflows/{name}/resume", etl)
  await ask("POST", "/workflows/{name}/backfill", etl, { body: { from: "2026-01-01", to: "2026-01-03", plan: true } })

  const run = await ask("POST", "/workflows/{name}/runs", etl, { body: { idempotency_key: "k" } })
  await ask("POST", "/workflows/{name}/runs", etl, { body: { idempotency_key: "k" } })
  const at = { id: run.body["id"] as string }
  await api.engine.waitForRun(at.id as never)
  await ask("GET", "/workflows")
  await ask("GET", "/runs", { query: "?limit=1" })
  await ask("GET", "/runs/{id}", at)
  await ask("GET", "/runs/{id}", { id: "01890a5d-ac96-774b-bcce-b302099a8057" })
  await ask("GET", "/runs/{id}/explain", at)
  await ask("GET", "/runs/{id}/graph", at)
  await ask("GET", "/runs/{id}/instances", at)
  await ask("GET", "/runs/{id}/tasks", at)
  await ask("GET", "/runs/{id}/tasks/{name}", { ...at, name: "a" })
  await ask("GET", "/runs/{id}/tasks/{name}", { ...at, name: "c" })
  await ask("GET", "/runs/{id}/tasks/{name}/logs", { ...at, name: "a" })
  await ask("GET", "/runs/{id}/tasks/{name}/output", { ...at, name: "a" })
  await ask("GET", "/runs/{id}/tasks/{name}/logs/times", { ...at, name: "a" })
  await ask("POST", "/runs/{id}/tasks/{name}/mark", { ...at, name: "a" }, { body: { status: "failed", reason: "wrong" } })
  await ask("POST", "/runs/{id}/retry", at, { body: { from: "b", plan: true } })
  await ask("POST", "/runs/{id}/retry", at)
  await api.engine.waitForRun(at.id as never)
  await ask("POST", "/runs/{id}/retry", at)
  await ask("POST", "/runs/{id}/tasks/{name}/retry", { ...at, name: "b" }, { body: { plan: true } })
  await ask("POST", "/runs/{id}/tasks/{name}/retry", { ...at, name: "b" })
  await api.engine.waitForRun(at.id as never)
  await ask("POST", "/runs/{id}/retry", at, { body: { from: "b" } })
  await api.engine.waitForRun(at.id as never)
  await ask("POST", "/runs/{id}/cancel", at)
  await ask("DELETE", "/runs/{id}", at)
  await api.deploy("slow", { a: "block" })
  const slow = { id: (await api.call("POST", "/workflows/slow/runs")).body["id"] as string }
  await api.executor.blocked("a")
  await ask("DELETE", "/runs/{id}", slow)
  await ask("POST", "/runs/{id}/pause", slow)
  await ask("POST", "/runs/{id}/resume", slow)
  await ask("POST", "/runs/{id}/cancel", slow)

  await api.deploy("asks", { yes: { executor: "approval", message: "go?" }, no: { executor: "approval" }, far: "defer" })
  const asks = { id: (await api.call("POST", "/workflows/asks/runs")).body["id"] as string }
  await untilWaiting(api, asks.id, 3)
  await ask("GET", "/runs/{id}/tasks", asks)
  await ask("POST", "/runs/{id}/tasks/{name}/approve", { ...asks, name: "yes" }, { body: { comment: "fine" } })
  await ask("POST", "/runs/{id}/tasks/{name}/approve", { ...asks, name: "yes" })
  await ask("POST", "/runs/{id}/tasks/{name}/reject", { ...asks, name: "no" })
  const token = api.executor.callbacks.get("far")!.split("/").at(-1)!
  await ask("POST", "/callbacks/{token}", { token }, { body: { output: { rows: 3 } }, key: null })
  await ask("POST", "/callbacks/{token}", { token }, { key: null })
  await ask("POST", "/callbacks/{token}", { token: "0-0" }, { key: null })

  const job = await ask("POST", "/jobs", {}, { body: { name: "j", queue: "q", payload: { a: 1 } } })
  const jobAt = { job_id: job.body["id"] as string }
  await ask("POST", "/jobs", {}, { body: { name: "j", queue: "q", id: jobAt.job_id } })
  await ask("POST", "/jobs/batch", {}, { body: { jobs: [{ name: "a", queue: "q" }] } })
  await ask("GET", "/jobs", { query: "?limit=1" })
  await ask("GET", "/jobs/{job_id}", jobAt)
  await ask("PUT", "/jobs/{job_id}", jobAt, { body: { priority: 9 } })
  await ask("GET", "/jobs/{job_id}/result", jobAt)
  await ask("GET", "/jobs/{job_id}/logs", jobAt)
  await ask("GET", "/jobs/{job_id}/logs/times", jobAt)
  await ask("POST", "/jobs/{job_id}/cancel", jobAt)
  await ask("PUT", "/jobs/{job_id}", jobAt, { body: { priority: 9 } })
  await ask("DELETE", "/jobs/{job_id}", jobAt)
  await ask("PUT", "/queues/{name}", { name: "q" }, { body: { concurrency: 2, rate_limit: { limit: 5, period_seconds: 1 } } })
  await ask("GET", "/queues/{name}", { name: "q" })
  await ask("GET", "/queues")
  await ask("GET", "/schedules")
  await ask("GET", "/workers")
  await ask("GET", "/session")
  await askAsWorker(api, ask)
  await ask("GET", "/stats")
  const key = await ask("POST", "/keys", {}, { body: { name: "ci", scopes: ["trigger"] } })
  await ask("GET", "/keys")
  await ask("DELETE", "/keys/{id}", { id: key.body["id"] as string })
  await ask("GET", "/audit", { query: "?limit=2" })
  const timestamp = String(Math.floor(Date.now() / 1000))
  const signed = { "x-ork-timestamp": timestamp, "content-type": "application/json" }
  const body = '{"day":"monday"}'
  const signature = signatureOf("hook-secret", timestamp, body)
  await ask("POST", "/hooks/{name}", etl, { body, key: null, headers: { ...signed, "x-ork-signature": signature } })
  await ask("POST", "/hooks/{name}", etl, { body, key: null, headers: { ...signed, "x-ork-signature": "sha256=no" } })
  await ask("GET", "/health")
  await ask("GET", "/ready")
  await ask("GET", "/metrics")
  await ask("GET", "/ui/sign-in", { query: `?token=${api.server.signInToken()}` }, { key: null })
  await ask("POST", "/ui/sign-in", {}, { body: { key: key.body["key"] }, key: null })
  await ask("POST", "/ui/sign-in", {}, { body: { key: "the-admin-key-of-tests" }, key: null })
  await ask("POST", "/ui/sign-out", {}, { key: null })
  await ask("DELETE", "/workflows/{name}", etl)

  const streams = ROUTES.filter((route) => route.path.endsWith("/events")).map((route) => `${route.method} ${route.path}`)
  const missing = ROUTES.map((route) => `${route.method} ${route.path}`).filter((each) => !succeeded.has(each))
  expect(missing.toSorted()).toEqual(streams.toSorted())
})

type Ask = (method: string, path: string, at?: Record<string, string>, options?: CallOptions) => Promise<TestResponse>

/** What a worker says in its life. */
const askAsWorker = async (api: Awaited<ReturnType<typeof setup>>, ask: Ask): Promise<void> => {
  const body = { name: "w", queues: ["far"], labels: ["gpu"], capacity: 2 }
  const { id, token } = (await ask("POST", "/workers", {}, { body })).body as { id: string; token: string }
  const at = { id }
  const own = { key: token }
  await api.deploy("far", {
    first: { command: "say 1" },
    a: { command: "x", queue: "far", parallel: 2, depends_on: ["first"] },
  })
  await api.call("POST", "/workflows/far/runs")
  const { assignments } = (await ask("POST", "/workers/{id}/claim", at, { ...own, body: { free: 1, known: [] } })).body as {
    assignments: { row: number; attempt_id: string; token: string }[]
  }
  const [{ row, attempt_id, token: proof }] = assignments as [(typeof assignments)[0]]
  const fence = { row, attempt_id, token: proof }
  await ask("POST", "/workers/{id}/heartbeat", at, own)
  const started = { now: Date.now(), entries: [{ ...fence, kind: "started", at: Date.now() }] }
  await ask("POST", "/workers/{id}/report", at, { ...own, body: started })
  const bytes = { ...own, headers: { "content-type": "application/octet-stream", "x-ork-attempt-token": proof } }
  const frame = Buffer.concat(encodeFrame({ ...fence, number: 1, offset: 0, record: 0 }, Buffer.alloc(0), Buffer.from("hi\n")))
  await ask("POST", "/workers/{id}/logs", at, { ...bytes, body: frame })
  const query = `?row=${row}&attempt_id=${attempt_id}`
  await ask("POST", "/workers/{id}/outputs", { ...at, query }, { ...bytes, body: "[1]" })
  await ask("GET", "/workers/{id}/upstream", { ...at, query: `${query}&task=first` }, bytes)
  const wrong = { now: Date.now(), entries: [{ ...fence, token: "wrong", kind: "released" }] }
  expect((await ask("POST", "/workers/{id}/report", at, { ...own, body: wrong })).status).toBe(409)
  await ask("DELETE", "/workers/{id}", at, own)
  expect((await ask("POST", "/workers/{id}/heartbeat", at, own)).status).toBe(409)
  const result = { task_instance_id: "x", status: "success", token: "t" }
  await ask("POST", "/internal/task-result", {}, { body: result, key: null })
}

test("the page for people is made of the document, without a script", async () => {
  await using api = await setup()
  const { status, text, headers } = await api.call("GET", "/docs", { key: null })
  expect(status).toBe(200)
  for (const route of ROUTES) expect(text).toContain(`<code>${route.path}</code>`)
  expect(text).not.toContain("<script")
  expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; style-src 'sha256-/)
})
