// Invalid requests: each gets the right status and code and a message that names the problem, changes nothing and shows no internals.

import { afterAll, beforeAll, expect, test } from "vitest"
import { ERROR_CODES, type ErrorCode } from "../../protocol/api/common.ts"
import { type CallOptions, setup } from "../testing/setup.ts"

const UNKNOWN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
const OTHER_JOB = "01890a5d-ac96-774b-bcce-b302099a8000"
const JSON_TYPE = { "content-type": "application/json" }
const deep = "[".repeat(65) + "]".repeat(65)

let api: Awaited<ReturnType<typeof setup>>
let run = ""
let running = ""
let job = ""

beforeAll(async () => {
  api = await setup()
  await api.deploy(
    "etl",
    { a: "echo hi", b: { command: "echo x", parallel: 2 } },
    { params: { day: { type: "date", required: true } } },
  )
  await api.deploy("done", { a: "echo hi", many: { command: "echo x", parallel: 2 } })
  await api.deploy("slow", { a: "block" })
  run = await api.runToEnd("done")
  running = (await api.call("POST", "/workflows/slow/runs")).body["id"] as string
  await api.executor.blocked("a")
  job = (await api.call("POST", "/jobs", { body: { name: "j", queue: "q" } })).body["id"] as string
  await api.call("POST", "/jobs", { body: { id: OTHER_JOB, name: "j", queue: "q" } })
})

afterAll(() => api[Symbol.asyncDispose]())

interface Case {
  what: string
  method: string
  url: () => string
  options: CallOptions
  code: ErrorCode
  message: RegExp
}

type Url = string | (() => string)
type Rest = Partial<Pick<Case, "code"> & { headers: Record<string, string> }>

const request =
  (method: string) =>
  (what: string, url: Url, body: unknown, message: RegExp, { code = "VALIDATION_ERROR", headers = {} }: Rest = {}): Case => ({
    what,
    method,
    url: typeof url === "string" ? () => url : url,
    options: { body, headers },
    code,
    message,
  })

const post = request("POST")
const put = request("PUT")
const get = (what: string, url: Url, message: RegExp, rest: Rest = {}): Case =>
  request("GET")(what, url, undefined, message, rest)

const CASES: Case[] = [
  post("malformed JSON", "/jobs", '{"name":', /not JSON/, { headers: JSON_TYPE }),
  post("a wrong content type", "/jobs", "name=x", /application\/json/, {
    code: "UNSUPPORTED_MEDIA_TYPE",
    headers: {
      "content-type": "application/x-www-form-urlencoded",
    },
  }),
  post("a job as text", "/jobs", "hello", /application\/json/, {
    code: "UNSUPPORTED_MEDIA_TYPE",
    headers: { "content-type": "text/plain" },
  }),
  post("a compressed body", "/jobs", '{"name":"j","queue":"q"}', /Content-Encoding gzip is not supported.*identity/, {
    code: "UNSUPPORTED_MEDIA_TYPE",
    headers: { ...JSON_TYPE, "content-encoding": "gzip" },
  }),
  post("no content type", "/workflows", "name: x", /Content-Type|application/, { code: "UNSUPPORTED_MEDIA_TYPE" }),
  post("a body over 1 MiB", "/jobs", `"${"x".repeat(1_048_576)}"`, /1048576/, { code: "TOO_LARGE", headers: JSON_TYPE }),
  post("depth over 64", "/jobs", deep, /64 levels/, { headers: JSON_TYPE }),
  post("depth over 64 in a definition", "/workflows", deep, /64/, { headers: JSON_TYPE }),
  post(
    "a number that is too large",
    "/jobs",
    '{"name":"j","queue":"q","payload":{"n":-1e999}}',
    /n: is a number that is too large/,
    { headers: JSON_TYPE },
  ),
  post("no body", "/jobs", undefined, /object/),
  post("a list in place of an object", "/jobs", [1], /object/),
  post("an unknown field", "/jobs", { name: "j", queue: "q", prioritty: 1 }, /prioritty.*did you mean "priority"/),
  post("an unknown field of a run", "/workflows/done/runs", { parms: {} }, /parms.*did you mean "params"/),
  post("a body where none is allowed", () => `/runs/${running}/pause`, { a: 1 }, /unknown field "a"/),
  post("an unknown field of a definition", "/workflows", { name: "x", tasks: { a: { comand: "x" } } }, /comand.*"command"/),
  post("a cycle", "/workflows", { name: "x", tasks: { a: { command: "x", depends_on: ["a"] } } }, /a/),
  post(
    "a file in a definition",
    "/workflows",
    { name: "x", tasks: { a: { executor: "node", file: "x.ts", function: "f" } } },
    /tasks\.a\.file.*ork deploy/,
  ),
  post(
    "an include in a definition",
    "/workflows",
    { name: "x", include: ["y"], tasks: { a: { command: "x" } } },
    /include.*ork deploy/,
  ),
  post("an existing name with If-None-Match", "/workflows", { name: "done", tasks: { a: { command: "x" } } }, /done already/, {
    code: "CONFLICT",
    headers: {
      "if-none-match": "*",
    },
  }),
  post("an unknown workflow", "/workflows/nothing/runs", {}, /no workflow nothing/, { code: "NOT_FOUND" }),
  post("a missing param", "/workflows/etl/runs", {}, /params\.day: is required/),
  post("a wrong param", "/workflows/etl/runs", { params: { day: 5 } }, /params\.day/),
  post(
    "an undeclared param",
    "/workflows/etl/runs",
    { params: { day: "2026-01-01", dya: 1 } },
    /params\.dya.*did you mean "day"/,
  ),
  post("priority 11", "/workflows/done/runs", { priority: 11 }, /priority: must be 10 or less/),
  post("an invalid logical date", "/workflows/done/runs", { logical_date: "soon" }, /logical_date: must be a day/),
  post("an idempotency key that is too long", "/workflows/done/runs", { idempotency_key: "x".repeat(256) }, /idempotency_key/),
  get("a text that is no id", "/runs/12", /no run 12/, { code: "NOT_FOUND" }),
  get("a number that no run has", "/runs/done%2399", /no run done#99/, { code: "NOT_FOUND" }),
  get("an unknown run", `/runs/${UNKNOWN_ID}`, /no run/, { code: "NOT_FOUND" }),
  get("an unknown task", () => `/runs/${run}/tasks/mny`, /no task mny; did you mean many/, { code: "NOT_FOUND" }),
  get("a fan-out without an index", () => `/runs/${run}/tasks/many/logs`, /several instances/),
  get("a missing instance", () => `/runs/${run}/tasks/many/logs?index=7`, /no instance 7/, { code: "NOT_FOUND" }),
  get("an index that contradicts the path", () => `/runs/${run}/tasks/many?index=1&path=0`, /different instances/),
  get("a bad path", () => `/runs/${run}/tasks/many?path=x`, /path: must be a path/),
  get("a missing attempt", () => `/runs/${run}/tasks/a/logs?attempt=9`, /has had 1 attempts/),
  get("a bad cursor", "/runs?cursor=x", /cursor: is not a cursor/),
  get("a cursor of another list", `/runs?cursor=${Buffer.from("w|etl").toString("base64")}`, /cursor/),
  get(
    "a cursor with a bad date",
    `/jobs?cursor=${Buffer.from(`2026-99-99T00:00:00.000Z|${UNKNOWN_ID}`).toString("base64")}`,
    /cursor/,
  ),
  get("limit 0", "/runs?limit=0", /limit: must be 1 or more/),
  get("limit 101", "/jobs?limit=101", /limit: must be 100 or less/),
  get("limit 1.5", "/jobs?limit=1.5", /limit: must be a whole number/),
  get("a limit in words", "/jobs?limit=ten", /limit: must be a/),
  get("a repeated limit", "/jobs?limit=1&limit=2", /limit: must be a/),
  get("an invalid date", "/runs?created_after=tomorrow", /created_after: must be a day/),
  get("a day that does not exist", "/jobs?created_before=2026-02-30", /created_before: must be a day/),
  get("an unknown status", "/runs?status=succes", /status: must be one of.*did you mean "success"/),
  get("a job status in lower case", "/jobs?status=ready", /status: must be one of/),
  get("an unknown filter", "/runs?stauts=failed", /stauts.*did you mean "status"/),
  get("an unknown query parameter", "/workers?x=1", /unknown field "x"/),
  get("an unknown route", "/nowhere", /no route GET \/nowhere/, { code: "NOT_FOUND" }),
  get("an invalid escape sequence in a path", "/runs/%zz", /./),
  get("a NUL in a filter", "/workflows?search=%00", /search/),
  post("cancelling an ended run", () => `/runs/${run}/cancel`, {}, /already ended as success/, { code: "CONFLICT" }),
  post("pausing an ended run", () => `/runs/${run}/pause`, {}, /already ended/, { code: "CONFLICT" }),
  post("retrying a running run", () => `/runs/${running}/retry`, {}, /is running/, { code: "CONFLICT" }),
  post("retrying a successful run without from", () => `/runs/${run}/retry`, {}, /every task succeeded/, { code: "CONFLICT" }),
  post("retrying from an unknown task", () => `/runs/${run}/retry`, { from: "zzz" }, /no task zzz/, { code: "CONFLICT" }),
  post("cancelling an unknown run", `/runs/${UNKNOWN_ID}/cancel`, {}, /no run/, { code: "NOT_FOUND" }),
  request("DELETE")("removing a running run", () => `/runs/${running}`, undefined, /not ended/, { code: "CONFLICT" }),
  request("PATCH")("a wrong method", "/runs", undefined, /GET/, { code: "METHOD_NOT_ALLOWED" }),
  put("a wrong method with a body of a wrong type", "/workflows", "x", /POST/, {
    code: "METHOD_NOT_ALLOWED",
    headers: { "content-type": "a/b" },
  }),
  post("a job without a name", "/jobs", { queue: "q" }, /name: is missing/),
  post("a job with an empty name", "/jobs", { name: "", queue: "q" }, /name: must be 1 to 255/),
  post("a job with a name of 256", "/jobs", { name: "x".repeat(256), queue: "q" }, /name: must be 1 to 255/),
  post("a bad queue", "/jobs", { name: "j", queue: "a-b" }, /queue: must be/),
  post("a queue of 65", "/jobs", { name: "j", queue: "a".repeat(65) }, /queue: must be/),
  post("priority 0", "/jobs", { name: "j", queue: "q", priority: 0 }, /priority: must be 1 or more/),
  post(
    "a payload over 64 KiB",
    "/jobs",
    { name: "j", queue: "q", payload: "x".repeat(65_536) },
    /payload: must be at most 65536/,
  ),
  post(
    "51 dependencies",
    "/jobs",
    { name: "j", queue: "q", dependencies: Array.from({ length: 51 }, () => UNKNOWN_ID) },
    /at most 50/,
  ),
  post(
    "a dependency that is not a UUID",
    "/jobs",
    { name: "j", queue: "q", dependencies: ["x"] },
    /dependencies\.0: must be a UUID/,
  ),
  post("a missing dependency", "/jobs", { name: "j", queue: "q", dependencies: [UNKNOWN_ID] }, /does not exist/),
  post(
    "a job that depends on itself",
    "/jobs",
    { id: UNKNOWN_ID, name: "j", queue: "q", dependencies: [UNKNOWN_ID] },
    /form a cycle/,
    { code: "CONFLICT" },
  ),
  post(
    "a retry policy of 11 attempts",
    "/jobs",
    { name: "j", queue: "q", retry_policy: { max_attempts: 11 } },
    /max_attempts: must be 10 or less/,
  ),
  post(
    "a maximum delay below the base delay",
    "/jobs",
    { name: "j", queue: "q", retry_policy: { base_delay_seconds: 20, max_delay_seconds: 19 } },
    /max_delay_seconds: must not be less/,
  ),
  post(
    "an unknown strategy",
    "/jobs",
    { name: "j", queue: "q", retry_policy: { backoff_strategy: "LINEER" } },
    /did you mean "LINEAR"/,
  ),
  post("an invalid task of a job", "/jobs", { name: "j", queue: "q", task: { comand: "x" } }, /task\.comand/),
  post(
    "a task with a queue of its own",
    "/jobs",
    { name: "j", queue: "q", task: { command: "x", queue: "y" } },
    /task\.queue: is not allowed/,
  ),
  post("an empty batch", "/jobs/batch", { jobs: [] }, /1 to 1000/),
  post(
    "a batch with an id twice",
    "/jobs/batch",
    { jobs: [1, 2].map(() => ({ id: UNKNOWN_ID, name: "j", queue: "q" })) },
    /same id/,
  ),
  put("changing the status of a job", () => `/jobs/${job}`, { status: "COMPLETED" }, /status: cannot be changed/),
  put(
    "changing the id of a job",
    () => `/jobs/${job}`,
    { id: "01890a5d-ac96-774b-bcce-b302099a8057" },
    /id: cannot be changed/,
  ),
  put("changing the attempts of a job", () => `/jobs/${job}`, { attempt_count: 3 }, /attempt_count: cannot be/),
  put("changing the creation time of a job", () => `/jobs/${job}`, { created_at: "x" }, /created_at: cannot be/),
  put("changing the dependencies of a READY job", () => `/jobs/${job}`, { dependencies: [OTHER_JOB] }, /only while/, {
    code: "CONFLICT",
  }),
  put("an update of an unknown job", () => `/jobs/${UNKNOWN_ID}`, {}, /no job/, { code: "NOT_FOUND" }),
  put("an invalid rate limit of a queue", "/queues/q", { rate_limit: { limit: 0, period_seconds: 1 } }, /rate_limit\.limit/),
  post("a key without scopes", "/keys", { name: "x", scopes: [] }, /scopes: must name/),
  post("a key with an unknown scope", "/keys", { name: "x", scopes: ["write"] }, /scopes\.0/),
  get("a bad last event id", "/events?after=x", /after: must be the id/),
  post(
    "a backfill that ends before it begins",
    "/workflows/done/backfill",
    { from: "2026-02-01", to: "2026-01-01" },
    /to: must not be before from/,
  ),
]

test.each(CASES)("$what is rejected", async ({ method, url, options, code, message }) => {
  const { status, body, text, headers } = await api.call(method, url(), options)
  expect(body.error, text).toMatchObject({ code })
  expect(body.error!.message).toMatch(message)
  expect(status).toBe(ERROR_CODES[code])
  expect(headers["content-type"]).toContain("application/json")
  expect(text).not.toMatch(/\bat .*\.[jt]s:\d|node_modules|\/tmp\/|\/src\//)
  if (code === "METHOD_NOT_ALLOWED") expect(headers["allow"]).toMatch(/GET|POST/)
})

test("all problems of a request are reported at once", async () => {
  const { body } = await api.call("POST", "/jobs", { body: { name: "", queue: "-", priority: 11 } })
  expect(body.error!.details!.map((problem) => problem.path).toSorted()).toEqual(["name", "priority", "queue"])
})

test("the rejected requests changed nothing", async () => {
  expect((await api.call("GET", "/jobs")).body["items"]).toHaveLength(2)
  expect((await api.call("GET", "/workflows")).body["items"]).toHaveLength(3)
  expect((await api.call("GET", "/keys")).body["items"]).toHaveLength(0)
  expect((await api.call("GET", "/runs")).body["items"]).toHaveLength(2)
})
