// Random requests: every response has a status below 500, and every error has the common shape without internal details.

import fc from "fast-check"
import { afterAll, beforeAll, expect, test } from "vitest"
import type { JsonSchema, OpenApi } from "./openapi.ts"
import { pathsOf } from "./mount.ts"
import { ROUTES } from "../routes/table.ts"
import { setup } from "../testing/setup.ts"

let api: Awaited<ReturnType<typeof setup>>
let document: OpenApi
const ids: string[] = []

beforeAll(async () => {
  api = await setup({ config: { failuresPerMinute: 1_000_000 } })
  document = (await api.call("GET", "/openapi.json")).body as unknown as OpenApi
  await api.deploy("etl", { a: "echo hi", many: { command: "echo x", parallel: 2 } })
  const key = (await api.call("POST", "/keys", { body: { name: "k", scopes: ["read"] } })).body["id"] as string
  ids.push(
    await api.runToEnd("etl"),
    (await api.call("POST", "/jobs", { body: { name: "j", queue: "q" } })).body["id"] as string,
    key,
  )
})

afterAll(() => api[Symbol.asyncDispose]())

/** Streams, which do not end, and routes that would remove what other requests use. */
const EXCLUDED = ["GET /events", "GET /runs/{id}/events", "DELETE /workflows/{name}", "DELETE /runs/{id}"]
const routes = ROUTES.filter((route) => !EXCLUDED.includes(`${route.method} ${route.path}`))

const oddText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 30 }),
  fc.string({ maxLength: 30 }),
  fc.constantFrom(
    "",
    "-1",
    "0",
    "NaN",
    "null",
    "true",
    "../..",
    "__proto__",
    "constructor",
    "\u0000",
    "😀",
    "1e400",
    "%2e%2e",
    "a".repeat(300),
  ),
)

const value: fc.Arbitrary<unknown> = fc.oneof(
  oddText,
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constant(null),
  fc.constantFrom("etl", "2026-01-01", "q", 5, ["read"], { a: 1 }, { command: "echo hi" }),
  fc.json({ maxDepth: 3 }).map((text) => JSON.parse(text) as unknown),
)

/** Returns the names of the fields of a schema. */
const fieldsOf = (schema: JsonSchema | undefined): string[] => Object.keys(schema?.["properties"] ?? {})

/** Valid bodies, of which the test changes up to two fields. */
const VALID_BODIES: Record<string, object> = {
  "/workflows": { name: "fresh", tasks: { a: { command: "echo hi" } } },
  "/workflows/validate": { name: "fresh", tasks: { a: { command: "echo hi" } } },
  "/workflows/{name}/backfill": { from: "2026-01-01", to: "2026-01-02" },
  "/jobs": { name: "j", queue: "q" },
  "/jobs/batch": { jobs: [{ name: "j", queue: "q" }] },
  "/keys": { name: "k", scopes: ["read"] },
  "/runs/{id}/tasks/{name}/mark": { status: "failed", reason: "because" },
}

const PARAMS: Record<string, string[]> = {
  id: ["RUN", "KEY"],
  job_id: ["JOB"],
  token: ["1-a-b"],
  hash: ["0".repeat(64)],
  name: ["etl", "a", "many", "q"],
}

const request = fc.constantFrom(...routes).chain((route) => {
  const operation = operationOf(route.path, route.method.toLowerCase())
  const query = operation.parameters.filter((each) => each.in === "query").map((each) => each.name)
  const fields = fieldsOf(operation.requestBody?.content["application/json"]?.schema)
  const names = (known: string[]) =>
    fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...known, "x") }, { weight: 1, arbitrary: oddText })
  const changed = fc
    .dictionary(names(fields), value, { maxKeys: 2 })
    .map((each) => JSON.stringify({ ...VALID_BODIES[route.path], ...each }))
  const paramNames = [...route.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!)
  return fc.record({
    route: fc.constant(route),
    path: fc.constantFrom(...pathsOf(route)),
    params: fc.tuple(
      ...paramNames.map((name) =>
        fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...PARAMS[name]!) }, { weight: 1, arbitrary: oddText }),
      ),
    ),
    query: fc.oneof(
      fc.constant({}),
      fc.dictionary(names(query), fc.oneof(oddText, fc.constantFrom("1", "10", "etl", "failed")), { maxKeys: 2 }),
    ),
    body: fc.oneof(
      { weight: 6, arbitrary: changed },
      { weight: 1, arbitrary: value.map((each) => JSON.stringify(each) ?? "") },
      { weight: 1, arbitrary: oddText },
    ),
    type: fc.oneof(
      { weight: 8, arbitrary: fc.constant("application/json") },
      { weight: 1, arbitrary: fc.constantFrom("application/yaml", "text/plain", "a/b", "") },
    ),
    headers: fc.dictionary(
      fc.constantFrom(
        "accept",
        "idempotency-key",
        "if-none-match",
        "last-event-id",
        "cookie",
        "x-ork-signature",
        "x-ork-timestamp",
      ),
      fc.string({ maxLength: 20 }),
      { maxKeys: 2 },
    ),
  })
})

const operationOf = (path: string, method: string) => document.paths[path]![method]!

let succeeded = 0

test("no request makes the server fail", async () => {
  await fc.assert(
    fc.asyncProperty(request, async ({ route, path, params, query, body, type, headers }) => {
      let next = 0
      const known: Record<string, string> = { RUN: ids[0]!, JOB: ids[1]!, KEY: ids[2]! }
      const filled = path.replaceAll(/\{\w+\}/g, () => {
        const text = params[next++]!
        return encodeURIComponent(known[text] ?? text.toWellFormed())
      })
      const search = Object.entries(query).map(
        ([name, each]) => `${encodeURIComponent(name.toWellFormed())}=${encodeURIComponent(each.toWellFormed())}`,
      )
      const url = search.length === 0 ? filled : `${filled}?${search.join("&")}`
      if (url.includes("follow")) return
      const response = await api.call(route.method, url, {
        ...(route.method !== "GET" && { body }),
        headers: { ...(route.method !== "GET" && type !== "" && { "content-type": type }), ...headers },
      })
      if (response.status < 300) succeeded += 1
      expect(response.status, `${route.method} ${url} ${body}: ${response.text}`).toBeLessThan(500)
      if (response.status >= 400) {
        expect(response.body.error?.code, response.text).toMatch(/^[A-Z_]+$/)
        expect(response.text).not.toMatch(/node_modules|\/tmp\/|\.[jt]s:\d/)
      }
    }),
    { numRuns: process.env["ORK_TEST_ALL"] === "1" ? 10_000 : 1000 },
  )
  // Enough requests pass the validation for the test to be meaningful.
  expect(succeeded).toBeGreaterThan(100)
}, 120_000)
