// Calls every route at least once with success. Every response, of errors too, must match the OpenAPI document.

import { expect, test } from "vitest"
import { workflow } from "../../core/testing.ts"
import { parseOidc } from "../../core/settings/oidc.ts"
import { encodeFrame } from "../../protocol/wire/log-frames.ts"
import { signatureOf } from "../../protocol/wire/signature.ts"
import type { OpenApi } from "./openapi.ts"
import { ROUTES } from "../routes/table.ts"
import { DocumentChecker } from "../testing/document.ts"
import { type TestResponse, type CallOptions, setup, untilWaiting } from "../testing/setup.ts"
import { createBundle } from "../../objects/bundles/bundles.ts"

test("the document has the shape of OpenAPI 3.1 and the limits that the routes check", async () => {
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

test("every response matches the document", async () => {
  await using api = await setup({
    lanes: ["q:default"],
    push: { hasToken: () => true, receive: async () => true, list: async () => [] },
    config: { oidc: parseOidc({ issuer: "https://login.example.com", client_id: "ork", roles: {} })! },
  })
  const document = (await api.call("GET", "/openapi.json")).body as unknown as OpenApi
  const checker = new DocumentChecker(document)
  const succeeded = new Set<string>()

  /** Calls a route and checks the response. `path` is that of the table; `at` has the values of its params and the query. */
  const call = async (method: string, path: string, at: Record<string, string> = {}, options: CallOptions = {}) => {
    const { query = "", ...params } = at
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""))
    const prefix = path.startsWith("/ui/") ? "" : "/api/v1"
    const response = await api.call(method, `${prefix}${filled}${query}`, options)
    expect(response.status, `${method} ${filled}: ${response.text}`).toBeLessThan(500)
    const type = String(response.headers["content-type"] ?? "")
    expect(checker.problem(method, path, { status: response.status, type, body: response.body })).toBeNull()
    if (response.status < 400) succeeded.add(`${method} ${path}`)
    return response
  }

  const definition = {
    name: "etl",
    description: "a flow",
    tags: ["x"],
    params: { day: { type: "string", default: "today", description: "the day" } },
    schedule: { cron: "0 2 * * *", jitter: "30s" },
    webhook: { secret: "HOOK" },
    tasks: {
      a: { command: "echo hello;file out/a.txt hello", artifacts: "out/*" },
      b: { command: "echo b", depends_on: ["a"], retries: 2 },
    },
  }
  const etl = { name: "etl" }
  await call("POST", "/workflows", {}, { body: definition })
  await call("POST", "/workflows", {}, { body: definition })
  await call("POST", "/workflows", {}, { body: { name: "etl" } })
  await call("POST", "/workflows", {}, { body: definition, headers: { "if-none-match": "*" } })
  await call("POST", "/workflows/validate", {}, { body: definition })
  await call("POST", "/workflows/validate", {}, { body: { nam: 1 } })
  const { hash, bytes: files } = createBundle([{ path: "a.ts", bytes: Buffer.from("1"), executable: false }])
  const asBytes = { headers: { "content-type": "application/octet-stream" } }
  await call("PUT", "/bundles/{hash}", { hash }, { ...asBytes, body: files })
  await call("PUT", "/bundles/{hash}", { hash }, { ...asBytes, body: Buffer.from("other") })
  await call("GET", "/bundles/{hash}", { hash })
  await call("GET", "/bundles/{hash}", { hash: "0".repeat(64) })
  await call("GET", "/workflows/{name}", etl)
  await call("GET", "/workflows/{name}", { name: "nothing" })
  await call("GET", "/workflows/{name}/versions", etl)
  await call("GET", "/workflows/{name}/changes", etl)
  await call("GET", "/workflows/{name}/grid", etl)
  await call("POST", "/workflows/{name}/pause", etl)
  await call("POST", "/workflows/{name}/resume", etl)
  await call("POST", "/workflows/{name}/backfill", etl, { body: { from: "2026-01-01", to: "2026-01-03", plan: true } })

  const run = await call("POST", "/workflows/{name}/runs", etl, { body: { idempotency_key: "k" } })
  await call("POST", "/workflows/{name}/runs", etl, { body: { idempotency_key: "k" } })
  const at = { id: run.body["id"] as string }
  await api.engine.waitForRun(at.id as never)
  await call("GET", "/workflows")
  await call("GET", "/runs", { query: "?limit=1" })
  await call("GET", "/runs/{id}", at)
  await call("GET", "/runs/{id}", { id: "01890a5d-ac96-774b-bcce-b302099a8057" })
  await call("GET", "/runs/{id}/explain", at)
  await call("GET", "/runs/{id}/export", at)
  await call("GET", "/runs/{id}/changes", at)
  await call("GET", "/runs/{id}/graph", at)
  await call("GET", "/runs/{id}/instances", at)
  await call("GET", "/runs/{id}/tasks", at)
  await call("GET", "/runs/{id}/tasks/{name}", { ...at, name: "a" })
  await call("GET", "/runs/{id}/tasks/{name}", { ...at, name: "c" })
  await call("GET", "/runs/{id}/tasks/{name}/logs", { ...at, name: "a" })
  await call("GET", "/runs/{id}/tasks/{name}/output", { ...at, name: "a" })
  await call("GET", "/runs/{id}/tasks/{name}/logs/times", { ...at, name: "a" })
  await call("GET", "/runs/{id}/tasks/{name}/artifacts", { ...at, name: "a" })
  await call("GET", "/runs/{id}/tasks/{name}/artifacts/content", { ...at, name: "a", query: "?file=out/a.txt" })
  await call("GET", "/runs/{id}/tasks/{name}/artifacts/content", { ...at, name: "a", query: "?file=out/b.txt" })
  await call("POST", "/runs/{id}/tasks/{name}/mark", { ...at, name: "a" }, { body: { status: "failed", reason: "wrong" } })
  await call("POST", "/runs/{id}/retry", at, { body: { from: "b", plan: true } })
  await call("POST", "/runs/{id}/retry", at)
  await api.engine.waitForRun(at.id as never)
  await call("POST", "/runs/{id}/retry", at)
  await call("POST", "/runs/{id}/tasks/{name}/retry", { ...at, name: "b" }, { body: { plan: true } })
  await call("POST", "/runs/{id}/tasks/{name}/retry", { ...at, name: "b" })
  await api.engine.waitForRun(at.id as never)
  await call("POST", "/runs/{id}/retry", at, { body: { from: "b" } })
  await api.engine.waitForRun(at.id as never)
  await call("POST", "/runs/{id}/cancel", at)
  await call("DELETE", "/runs/{id}", at)
  await api.deploy("slow", { a: "block" })
  const slow = { id: (await api.call("POST", "/workflows/slow/runs")).body["id"] as string }
  await api.executor.blocked("a")
  await call("DELETE", "/runs/{id}", slow)
  await call("POST", "/runs/{id}/pause", slow)
  await call("POST", "/runs/{id}/resume", slow)
  await call("POST", "/runs/{id}/cancel", slow)

  await api.deploy("approvals", {
    yes: { executor: "approval", message: "go?" },
    no: { executor: "approval" },
    far: { command: "defer", defer: true },
  })
  const approvals = { id: (await api.call("POST", "/workflows/approvals/runs")).body["id"] as string }
  await untilWaiting(api, approvals.id, 3)
  await call("GET", "/runs/{id}/tasks", approvals)
  await call("POST", "/runs/{id}/tasks/{name}/approve", { ...approvals, name: "yes" }, { body: { comment: "fine" } })
  await call("POST", "/runs/{id}/tasks/{name}/approve", { ...approvals, name: "yes" })
  await call("POST", "/runs/{id}/tasks/{name}/reject", { ...approvals, name: "no" })
  const token = api.executor.callbacks.get("far")!.split("/").at(-1)!
  await call("POST", "/callbacks/{token}", { token }, { body: { output: { rows: 3 } }, key: null })
  await call("POST", "/callbacks/{token}", { token }, { key: null })
  await call("POST", "/callbacks/{token}", { token: "0-0" }, { key: null })

  // No worker has the label, so that the run cannot end before the signal.
  const unclaimed = workflow({ main: { labels: ["elsewhere"] } })
  const durable = await api.store.putWorkflow({
    compiled: { ...unclaimed, nodes: [{ ...unclaimed.nodes[0]!, durable: true }] },
    hash: "durable",
    source: "",
    deploy: false,
  })
  const started = await api.engine.trigger({
    ...durable,
    trigger: "manual",
    params: {},
    priority: null,
    logicalDate: null,
    idempotencyKey: null,
    workingDir: null,
  })
  await call(
    "POST",
    "/runs/{id}/signals/{name}",
    { id: started.run.id, name: "paid" },
    { body: { payload: { cents: 1 }, key: "p1" } },
  )
  await call("GET", "/runs/{id}/steps", { id: started.run.id })

  const job = await call("POST", "/jobs", {}, { body: { name: "j", queue: "q", payload: { a: 1 } } })
  const jobAt = { job_id: job.body["id"] as string }
  await call("POST", "/jobs", {}, { body: { name: "j", queue: "q", id: jobAt.job_id } })
  const keyed = {
    name: "k",
    queue: "q",
    idempotency_key: "k",
    retry: { max_attempts: 2 },
    timeout: "5s",
    expires: 60,
    group: "g",
  }
  for (const path of ["/jobs", "/jobs"]) await call("POST", path, {}, { body: keyed })
  await call("POST", "/jobs/batch", {}, { body: { jobs: [keyed] } })
  await call("POST", "/jobs/batch", {}, { body: { jobs: [{ name: "a", queue: "q" }] } })
  await call("GET", "/jobs", { query: "?limit=1" })
  await call("GET", "/jobs/{job_id}", jobAt)
  await call("PUT", "/jobs/{job_id}", jobAt, { body: { priority: 9 } })
  await call("GET", "/jobs/{job_id}/explain", jobAt)
  await call("GET", "/jobs/{job_id}/result", jobAt)
  const echo = await call("POST", "/jobs", {}, { body: { name: "e", queue: "default", task: { command: "echo" } } })
  const echoAt = { job_id: echo.body["id"] as string }
  await call("GET", "/jobs/{job_id}/result", { ...echoAt, query: "?wait=30s" })
  await call("GET", "/jobs/{job_id}/output", echoAt)
  await call("GET", "/jobs/{job_id}/changes", jobAt)
  await call("GET", "/jobs/{job_id}/logs", jobAt)
  await call("GET", "/jobs/{job_id}/logs/times", jobAt)
  await call("POST", "/jobs/{job_id}/cancel", jobAt)
  await call("POST", "/jobs/{job_id}/retry", jobAt)
  await call("POST", "/jobs/{job_id}/retry", jobAt)
  await call("POST", "/jobs/{job_id}/cancel", jobAt)
  await call("PUT", "/jobs/{job_id}", jobAt, { body: { priority: 9 } })
  await call("DELETE", "/jobs/{job_id}", jobAt)
  await call("PUT", "/queues/{name}", { name: "q" }, { body: { concurrency: 2, rate_limit: { limit: 5, period_seconds: 1 } } })
  await call("GET", "/queues/{name}", { name: "q" })
  await call("GET", "/queues")
  await call("PUT", "/schedules/{name}", { name: "daily" }, { body: { cron: "0 8 * * 1", function: "digest" } })
  await call("PUT", "/schedules/{name}", { name: "daily" }, { body: { cron: "at eight", function: "digest" } })
  await call("GET", "/schedules")
  await call("GET", "/workers")
  await call("GET", "/session")
  await callAsWorker(api, call)
  await call("GET", "/stats")
  const key = await call("POST", "/keys", {}, { body: { name: "ci", scopes: ["trigger"] } })
  await call("GET", "/keys")
  await call("POST", "/keys/{id}/rotate", { id: key.body["id"] as string }, { body: { overlap: "1h" } })
  await call("DELETE", "/keys/{id}", { id: key.body["id"] as string })
  await call("GET", "/audit", { query: "?limit=2" })
  const timestamp = String(Math.floor(Date.now() / 1000))
  const signed = { "x-ork-timestamp": timestamp, "content-type": "application/json" }
  const body = '{"day":"monday"}'
  const signature = signatureOf("hook-secret", timestamp, `etl.${body}`)
  await call("POST", "/hooks/{name}", etl, { body, key: null, headers: { ...signed, "x-ork-signature": signature } })
  await call("POST", "/hooks/{name}", etl, { body, key: null, headers: { ...signed, "x-ork-signature": "sha256=no" } })
  await call("GET", "/health")
  await call("GET", "/ready")
  await call("GET", "/metrics")
  await call("POST", "/sign-in-links", {}, { body: { page: "/ui/runs" } })
  await call("GET", "/ui/sign-in", { query: `?token=${api.server.signInToken()}` }, { key: null })
  await call("POST", "/ui/sign-in", {}, { body: { key: key.body["key"] }, key: null })
  await call("POST", "/ui/sign-in", {}, { body: { key: "the-admin-key-of-tests" }, key: null })
  await call("POST", "/ui/sign-out", {}, { key: null })
  await call("GET", "/ui/sign-in/methods", {}, { key: null })
  await call("GET", "/ui/sign-in/callback", { query: "?code=x&state=y" }, { key: null })
  await call("DELETE", "/workflows/{name}", etl)

  // Streams, and a route that needs an OpenID provider.
  const others = ROUTES.filter(({ path }) => path.endsWith("/events") || path.endsWith("/oidc")).map(
    (route) => `${route.method} ${route.path}`,
  )
  const missing = ROUTES.map((route) => `${route.method} ${route.path}`).filter((each) => !succeeded.has(each))
  expect(missing.toSorted()).toEqual(others.toSorted())
})

type Call = (method: string, path: string, at?: Record<string, string>, options?: CallOptions) => Promise<TestResponse>

/** Makes every call of the worker protocol. */
const callAsWorker = async (api: Awaited<ReturnType<typeof setup>>, call: Call): Promise<void> => {
  const body = { name: "w", queues: ["far"], labels: ["gpu"], capacity: 2 }
  const { id, token } = (await call("POST", "/workers", {}, { body })).body as { id: string; token: string }
  const at = { id }
  const asWorker = { key: token }
  await api.deploy("far", {
    first: { command: "file a.txt 1", artifacts: "*.txt" },
    a: { command: "x", queue: "far", parallel: 2, artifacts_from: "first", artifacts: "*.csv" },
  })
  await api.call("POST", "/workflows/far/runs")
  const { assignments } = (await call("POST", "/workers/{id}/claim", at, { ...asWorker, body: { free: 1, known: [] } }))
    .body as {
    assignments: { row: number; attempt_id: string; token: string; work: { upstreamArtifacts: { prefix: string }[] } }[]
  }
  const [{ row, attempt_id, token: proof, work }] = assignments as [(typeof assignments)[0]]
  const fence = { row, attempt_id, token: proof }
  await call("POST", "/workers/{id}/heartbeat", at, asWorker)
  const started = { now: Date.now(), entries: [{ ...fence, kind: "started", at: Date.now() }] }
  await call("POST", "/workers/{id}/report", at, { ...asWorker, body: started })
  const bytes = { ...asWorker, headers: { "content-type": "application/octet-stream", "x-ork-attempt-token": proof } }
  const frame = Buffer.concat(encodeFrame({ ...fence, number: 1, offset: 0, record: 0 }, Buffer.alloc(0), Buffer.from("hi\n")))
  await call("POST", "/workers/{id}/logs", at, { ...bytes, body: frame })
  const query = `?row=${row}&attempt_id=${attempt_id}`
  await call("POST", "/workers/{id}/outputs", { ...at, query }, { ...bytes, body: "[1]" })
  await call("GET", "/workers/{id}/upstream", { ...at, query: `${query}&task=first` }, bytes)
  await call("POST", "/workers/{id}/artifacts", { ...at, query: `${query}&file=b.csv` }, { ...bytes, body: "1,2" })
  const { prefix } = work.upstreamArtifacts.at(-1)!
  const upstreamFile = `${query}&prefix=${encodeURIComponent(prefix)}&file=a.txt`
  expect((await call("GET", "/workers/{id}/artifacts", { ...at, query: upstreamFile }, bytes)).text).toBe("1")
  const wrong = { now: Date.now(), entries: [{ ...fence, token: "wrong", kind: "released" }] }
  expect((await call("POST", "/workers/{id}/report", at, { ...asWorker, body: wrong })).status).toBe(409)
  await call("DELETE", "/workers/{id}", at, asWorker)
  expect((await call("POST", "/workers/{id}/heartbeat", at, asWorker)).status).toBe(409)
  const result = { task_instance_id: "x", status: "success", token: "t" }
  await call("POST", "/internal/task-result", {}, { body: result, key: null })
}

test("the page /docs lists every route and has no script", async () => {
  await using api = await setup()
  const { status, text, headers } = await api.call("GET", "/docs", { key: null })
  expect(status).toBe(200)
  for (const route of ROUTES) expect(text).toContain(`<code>${route.path}</code>`)
  expect(text).not.toContain("<script")
  expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; style-src 'sha256-/)
})
