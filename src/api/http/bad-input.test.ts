// Bad input: the right status and code, a message that names what is wrong, nothing changed, and nothing of the inside shown.

import { afterAll, beforeAll, expect, test } from "vitest"
import { ERROR_CODES, type ErrorCode } from "../../protocol/api/common.ts"
import { type CallOptions, setup } from "../testing/setup.ts"

const ANONYMOUS = "01890a5d-ac96-774b-bcce-b302099a8057"
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
    { a: "say hi", b: { command: "say x", parallel: 2 } },
    { params: { day: { type: "date", required: true } } },
  )
  await api.deploy("done", { a: "say hi", many: { command: "say x", parallel: 2 } })
  await api.deploy("slow", { a: "block" })
  run = await api.runToEnd("done")
  running = (await api.call("POST", "/workflows/slow/runs")).body["id"] as string
  await api.executor.blocked("a")
  job = (await api.call("POST", "/jobs", { body: { name: "j", queue: "q" } })).body["id"] as string
  await api.call("POST", "/jobs", { body: { id: OTHER_JOB, name: "j", queue: "q" } })
})

afterAll(() => api[Symbol.asyncDispose]())

type Case = [what: string, method: string, url: () => string, options: CallOptions, code: ErrorCode, message: RegExp]

const get = (what: string, url: string | (() => string), message: RegExp, code: ErrorCode = "VALIDATION_ERROR"): Case => [
  what,
  "GET",
  typeof url === "string" ? () => url : url,
  {},
  code,
  message,
]
const post = (
  what: string,
  url: string | (() => string),
  body: unknown,
  message: RegExp,
  code: ErrorCode = "VALIDATION_ERROR",
  headers: Record<string, string> = {},
): Case => [what, "POST", typeof url === "string" ? () => url : url, { body, headers }, code, message]

const CASES: Case[] = [
  post("malformed JSON", "/jobs", '{"name":', /not JSON/, "VALIDATION_ERROR", JSON_TYPE),
  post("a wrong content type", "/jobs", "name=x", /application\/json/, "UNSUPPORTED_MEDIA_TYPE", {
    "content-type": "application/x-www-form-urlencoded",
  }),
  post("text as a job", "/jobs", "hello", /application\/json/, "UNSUPPORTED_MEDIA_TYPE", { "content-type": "text/plain" }),
  post("no content type", "/workflows", "name: x", /Content-Type|application/, "UNSUPPORTED_MEDIA_TYPE"),
  post("a body over 1 MiB", "/jobs", `"${"x".repeat(1_048_576)}"`, /1048576/, "TOO_LARGE", JSON_TYPE),
  post("depth over 64", "/jobs", deep, /64 levels/, "VALIDATION_ERROR", JSON_TYPE),
  post("depth over 64 in a definition", "/workflows", deep, /64/, "VALIDATION_ERROR", JSON_TYPE),
  post(
    "a number that is too large",
    "/jobs",
    '{"name":"j","queue":"q","payload":{"n":-1e999}}',
    /n: is a number that is too large/,
    "VALIDATION_ERROR",
    JSON_TYPE,
  ),
  post("no body", "/jobs", undefined, /object/),
  post("a list for an object", "/jobs", [1], /object/),
  post("an unknown field", "/jobs", { name: "j", queue: "q", prioritty: 1 }, /prioritty.*did you mean "priority"/),
  post("an unknown field of a run", "/workflows/done/runs", { parms: {} }, /parms.*did you mean "params"/),
  post("a body where none is taken", () => `/runs/${running}/pause`, { a: 1 }, /unknown field "a"/),
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
  post(
    "an existing name with If-None-Match",
    "/workflows",
    { name: "done", tasks: { a: { command: "x" } } },
    /done already/,
    "CONFLICT",
    {
      "if-none-match": "*",
    },
  ),
  post("an unknown workflow", "/workflows/nothing/runs", {}, /no workflow nothing/, "NOT_FOUND"),
  post("a missing param", "/workflows/etl/runs", {}, /params\.day: is required/),
  post("a wrong param", "/workflows/etl/runs", { params: { day: 5 } }, /params\.day/),
  post(
    "an undeclared param",
    "/workflows/etl/runs",
    { params: { day: "2026-01-01", dya: 1 } },
    /params\.dya.*did you mean "day"/,
  ),
  post("priority 11", "/workflows/done/runs", { priority: 11 }, /priority: must be 10 or less/),
  post("a logical date that is none", "/workflows/done/runs", { logical_date: "soon" }, /logical_date: must be a day/),
  post("an idempotency key that is too long", "/workflows/done/runs", { idempotency_key: "x".repeat(256) }, /idempotency_key/),
  get("a bad UUID", "/runs/12", /id: must be a UUID/),
  get("an unknown run", `/runs/${ANONYMOUS}`, /no run/, "NOT_FOUND"),
  get("an unknown task", () => `/runs/${run}/tasks/mny`, /no task mny; did you mean many/, "NOT_FOUND"),
  get("a fan-out without an index", () => `/runs/${run}/tasks/many/logs`, /several instances/),
  get("an instance that is not there", () => `/runs/${run}/tasks/many/logs?index=7`, /no instance 7/, "NOT_FOUND"),
  get("index and path at odds", () => `/runs/${run}/tasks/many?index=1&path=0`, /another instance/),
  get("a bad path", () => `/runs/${run}/tasks/many?path=x`, /path: must be a path/),
  get("an attempt that was not", () => `/runs/${run}/tasks/a/logs?attempt=9`, /has had 1 attempts/),
  get("a bad cursor", "/runs?cursor=x", /cursor: is not a cursor/),
  get("a cursor of another list", `/runs?cursor=${Buffer.from("w|etl").toString("base64")}`, /cursor/),
  get(
    "a cursor with a bad date",
    `/jobs?cursor=${Buffer.from(`2026-99-99T00:00:00.000Z|${ANONYMOUS}`).toString("base64")}`,
    /cursor/,
  ),
  get("limit 0", "/runs?limit=0", /limit: must be 1 or more/),
  get("limit 101", "/jobs?limit=101", /limit: must be 100 or less/),
  get("limit 1.5", "/jobs?limit=1.5", /limit: must be a whole number/),
  get("limit ten", "/jobs?limit=ten", /limit: must be a/),
  get("limit twice", "/jobs?limit=1&limit=2", /limit: must be a/),
  get("a date that is none", "/runs?created_after=tomorrow", /created_after: must be a day/),
  get("a day that the calendar lacks", "/jobs?created_before=2026-02-30", /created_before: must be a day/),
  get("an unknown status", "/runs?status=succes", /status: must be one of.*did you mean "success"/),
  get("a status in capitals", "/jobs?status=ready", /status: must be one of/),
  get("an unknown filter", "/runs?stauts=failed", /stauts.*did you mean "status"/),
  get("a query where none is taken", "/workers?x=1", /unknown field "x"/),
  get("an unknown route", "/nowhere", /no route GET \/nowhere/, "NOT_FOUND"),
  get("a broken escape", "/runs/%zz", /./),
  get("a NUL in a filter", "/workflows?search=%00", /search/),
  post("cancel of a run that has ended", () => `/runs/${run}/cancel`, {}, /already ended as success/, "CONFLICT"),
  post("pause of a run that has ended", () => `/runs/${run}/pause`, {}, /already ended/, "CONFLICT"),
  post("retry of a running run", () => `/runs/${running}/retry`, {}, /is running/, "CONFLICT"),
  post("retry of a success without from", () => `/runs/${run}/retry`, {}, /every task succeeded/, "CONFLICT"),
  post("retry from an unknown task", () => `/runs/${run}/retry`, { from: "zzz" }, /no task zzz/, "CONFLICT"),
  post("cancel of nothing", `/runs/${ANONYMOUS}/cancel`, {}, /no run/, "NOT_FOUND"),
  ["removal of a running run", "DELETE", () => `/runs/${running}`, {}, "CONFLICT", /not ended/],
  ["a wrong method", "PATCH", () => "/runs", {}, "METHOD_NOT_ALLOWED", /GET/],
  [
    "a wrong method with a body of a wrong type",
    "PUT",
    () => "/workflows",
    { body: "x", headers: { "content-type": "a/b" } },
    "METHOD_NOT_ALLOWED",
    /POST/,
  ],
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
    { name: "j", queue: "q", dependencies: Array.from({ length: 51 }, () => ANONYMOUS) },
    /at most 50/,
  ),
  post(
    "a dependency that is no id",
    "/jobs",
    { name: "j", queue: "q", dependencies: ["x"] },
    /dependencies\.0: must be a UUID/,
  ),
  post("a missing dependency", "/jobs", { name: "j", queue: "q", dependencies: [ANONYMOUS] }, /does not exist/),
  post(
    "a job that depends on itself",
    "/jobs",
    { id: ANONYMOUS, name: "j", queue: "q", dependencies: [ANONYMOUS] },
    /form a cycle/,
    "CONFLICT",
  ),
  post(
    "11 attempts",
    "/jobs",
    { name: "j", queue: "q", retry_policy: { max_attempts: 11 } },
    /max_attempts: must be 10 or less/,
  ),
  post(
    "max delay below base",
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
  post("a task that is none", "/jobs", { name: "j", queue: "q", task: { comand: "x" } }, /task\.comand/),
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
    { jobs: [1, 2].map(() => ({ id: ANONYMOUS, name: "j", queue: "q" })) },
    /same id/,
  ),
  [
    "a job's status",
    "PUT",
    () => `/jobs/${job}`,
    { body: { status: "READY" } },
    "VALIDATION_ERROR",
    /status: cannot be changed/,
  ],
  ["a job's id", "PUT", () => `/jobs/${job}`, { body: { id: job } }, "VALIDATION_ERROR", /id: cannot be changed/],
  [
    "a job's attempts",
    "PUT",
    () => `/jobs/${job}`,
    { body: { attempt_count: 0 } },
    "VALIDATION_ERROR",
    /attempt_count: cannot be/,
  ],
  ["a job's creation", "PUT", () => `/jobs/${job}`, { body: { created_at: "x" } }, "VALIDATION_ERROR", /created_at: cannot be/],
  [
    "dependencies of a READY job",
    "PUT",
    () => `/jobs/${job}`,
    { body: { dependencies: [OTHER_JOB] } },
    "CONFLICT",
    /only while/,
  ],
  ["an update of nothing", "PUT", () => `/jobs/${ANONYMOUS}`, { body: {} }, "NOT_FOUND", /no job/],
  [
    "a queue's bad rate",
    "PUT",
    () => "/queues/q",
    { body: { rate_limit: { limit: 0, period_seconds: 1 } } },
    "VALIDATION_ERROR",
    /rate_limit\.limit/,
  ],
  post("a key without scopes", "/keys", { name: "x", scopes: [] }, /scopes: must name/),
  post("a key with an unknown scope", "/keys", { name: "x", scopes: ["write"] }, /scopes\.0/),
  get("a bad last event id", "/events?after=x", /after: must be the id/),
  post("a backfill backwards", "/workflows/done/backfill", { from: "2026-02-01", to: "2026-01-01" }, /to: must be later/),
]

test.each(CASES)("%s", async (_what, method, url, options, code, message) => {
  const { status, body, text, headers } = await api.call(method, url(), options)
  expect(body.error, text).toMatchObject({ code })
  expect(body.error!.message).toMatch(message)
  expect(status).toBe(ERROR_CODES[code])
  expect(headers["content-type"]).toContain("application/json")
  expect(text).not.toMatch(/\bat .*\.[jt]s:\d|node_modules|\/tmp\/|\/src\//)
  if (code === "METHOD_NOT_ALLOWED") expect(headers["allow"]).toMatch(/GET|POST/)
})

test("every problem of a request is told at once", async () => {
  const { body } = await api.call("POST", "/jobs", { body: { name: "", queue: "-", priority: 11 } })
  expect(body.error!.details!.map((problem) => problem.path).toSorted()).toEqual(["name", "priority", "queue"])
})

test("nothing was changed by any of it", async () => {
  expect((await api.call("GET", "/jobs")).body["items"]).toHaveLength(2)
  expect((await api.call("GET", "/workflows")).body["items"]).toHaveLength(3)
  expect((await api.call("GET", "/keys")).body["items"]).toHaveLength(0)
  expect((await api.call("GET", "/runs")).body["items"]).toHaveLength(2)
})
