import { mkdtemp, rm } from "node:fs/promises"
import { once } from "node:events"
import type { ServerResponse } from "node:http"
import { type AddressInfo, createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, onTestFinished, test } from "vitest"
import { parseHttpAllow } from "../../core/settings/http-allow.ts"
import { DEFAULT_POLICY } from "../../core/settings/policy.ts"
import type { Json } from "../../core/values/json.ts"
import { FileObjectStore } from "../../objects/file/file.ts"
import { allLines, assignment, launch, type Overrides, realClock } from "../conformance/fixture.ts"
import { retryAfterMs } from "./response.ts"
import { HttpExecutor } from "./http.ts"
import { type ReceivedRequest, startWebServer } from "./testing.ts"

const setup = async (respond: (request: ReceivedRequest, response: ServerResponse) => void, allow = "127.0.0.1") => {
  const web = await startWebServer(respond)
  const folder = await mkdtemp(join(tmpdir(), "ork-http-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const executor = new HttpExecutor({ objects, clock: realClock, allow: parseHttpAllow(allow)! })
  const cleanup = async (): Promise<void> => {
    await executor.stop()
    await rm(folder, { recursive: true, force: true })
  }
  onTestFinished(cleanup)
  const start = (fields: { [field: string]: Json }, rest: Overrides = {}) =>
    launch(
      { executor, objects, folder, cleanup },
      assignment(folder, null, { fields: { url: `${web.url}/x?key=k`, ...fields }, ...rest }),
    )
  const run = async (fields: { [field: string]: Json } = {}, rest: Overrides = {}) => {
    const launched = start(fields, rest)
    const result = await launched.result
    return { result, log: (await allLines(launched.log)).map(({ line }) => line) }
  }
  return { web, objects, start, run }
}

const json = (response: ServerResponse, value: Json, status = 200): void =>
  void response.writeHead(status, { "content-type": "application/json; charset=utf-8" }).end(JSON.stringify(value))

describe("a response", () => {
  test("is the output, with status, headers and parsed body; the log has request and response without the query", async () => {
    const { web, run } = await setup((_, response) => {
      response.setHeader("set-cookie", "session=1")
      json(response, { rows: 3 })
    })
    const { result, log } = await run()
    expect(result).toMatchObject({
      state: "success",
      output: { inline: { status: 200, headers: { "content-type": "application/json; charset=utf-8" }, body: { rows: 3 } } },
    })
    expect(JSON.stringify(result)).not.toContain("session")
    expect(web.requests[0]).toMatchObject({ method: "GET", path: "/x?key=k", headers: { "user-agent": "ork" } })
    expect(log[0]).toBe(`> GET ${web.url}/x?…`)
    expect(log[1]).toMatch(/^< 200 OK, application\/json; charset=utf-8, 10 bytes in \d+ ms$/)
  })

  test.each([
    ["text/plain", "[1]", "[1]"],
    ["application/json", "not json", "not json"],
    ["application/problem+json", '{"a":1}', { a: 1 }],
    ["application/json", "", null],
  ])("of %s with %j has the body %j", async (type, sent, body) => {
    const { run } = await setup((_, response) => response.writeHead(200, { "content-type": type }).end(sent))
    expect((await run()).result).toMatchObject({ output: { inline: { body } } })
  })

  test("that is large is stored as an object; one above max_body fails without a retry", async () => {
    const { objects, run } = await setup((_, response) => json(response, "x".repeat(100_000)))
    const { result } = await run()
    expect(result).toMatchObject({ state: "success", output: { key: expect.stringMatching(/output\.json$/) as string } })
    const { key } = result.output as { key: string }
    const stored = JSON.parse(Buffer.from((await objects.get(key))!).toString()) as { body: string }
    expect(stored.body).toHaveLength(100_000)
    const tooLarge = await run({ http: { max_body: "10Ki" } })
    expect(tooLarge.result).toMatchObject({ state: "failed", retryable: false })
    expect(tooLarge.result.error).toMatch(/body of more than 10 KiB; raise http\.max_body/)
    const over = await run({}, { maxOutputBytes: 50_000 })
    expect(over.result).toMatchObject({ state: "failed", retryable: false })
  })
})

describe("a request", () => {
  test.each([
    [{ body: { a: [1] } }, "POST", "application/json", '{"a":[1]}'],
    [{ body: "plain", method: "put" }, "PUT", "text/plain;charset=UTF-8", "plain"],
    [
      { body: { a: "x y", b: 2, c: null }, headers: { "Content-Type": "application/x-www-form-urlencoded" } },
      "POST",
      "application/x-www-form-urlencoded",
      "a=x+y&b=2",
    ],
    [{ body: null }, "GET", undefined, ""],
  ])("with %j has the right method, type and body", async (fields: { [field: string]: Json }, method, type, body) => {
    const { web, run } = await setup((_, response) => response.end())
    expect((await run(fields)).result.state).toBe("success")
    expect(web.requests[0]).toMatchObject({ method, body })
    expect(web.requests[0]!.headers["content-type"]).toBe(type)
  })

  test.each([
    [{ body: "x", method: "GET" }, /GET request takes no body/],
    [{ headers: { a: [1] } }, /header a is not a string/],
    [{ headers: { a: "x\r\nb: y" } }, /header a contains a newline/],
    [{ headers: { "a b": "x" } }, /not a valid header name/],
    [{ method: "G T" }, /not an HTTP method/],
    [{ url: "nowhere" }, /url is not an address/],
    [{ url: "file:///etc/passwd" }, /only http: and https:/],
    [{ url: "http://169.254.169.254/" }, /metadata/],
  ])("with %j fails without a retry", async (fields: { [field: string]: Json }, reason) => {
    const { web, run } = await setup((_, response) => response.end())
    const { result, log } = await run(fields)
    expect(result).toMatchObject({ state: "failed", retryable: false, error: expect.stringMatching(reason) as string })
    expect(log.at(-1)).toMatch(reason)
    expect(web.requests).toEqual([])
  })

  test("without a response may be retried", async () => {
    const { run } = await setup((_, response) => response.destroy())
    const { result } = await run()
    expect(result).toMatchObject({ state: "failed", error: expect.stringMatching(/^no response: /) as string })
    expect(result.retryable).not.toBe(false)
    const gone = createServer().listen(0, "127.0.0.1")
    await once(gone, "listening")
    const { port } = gone.address() as AddressInfo
    gone.close()
    await once(gone, "close")
    const closed = await run({ url: `http://127.0.0.1:${port}/` })
    expect(closed.result.error).toMatch(/no response: .*ECONNREFUSED/)
    expect(closed.result.retryable).not.toBe(false)
  })
})

describe("a status", () => {
  test.each([
    [404, {}, false],
    [400, {}, false],
    [500, {}, true],
    [503, {}, true],
    [429, {}, true],
    [408, {}, true],
    [404, { retry_on: ["4xx"] }, true],
    [500, { retry_on: [502] }, false],
  ])("of %i with %j fails the attempt; retryable: %j", async (status, http: { [field: string]: Json }, retryable) => {
    const { web, run } = await setup((_, response) => json(response, { detail: "what is wrong" }, status))
    const { result, log } = await run({ http })
    expect(result.state).toBe("failed")
    expect(result.retryable !== false).toBe(retryable)
    expect(result.error).toMatch(`GET ${web.url}/x?… responded ${status}`)
    expect(result.error).toMatch('{"detail":"what is wrong"}')
    expect(log.at(-1)).toBe(result.error)
  })

  test.each([
    [404, { expect: [404] }],
    [418, { expect: ["4xx"] }],
    [302, { expect: ["3xx"], redirects: 0 }],
  ])("of %i that is expected by %j is a success", async (status, http: { [field: string]: Json }) => {
    const { run } = await setup((_, response) => response.writeHead(status, { location: "/" }).end())
    expect((await run({ http })).result).toMatchObject({ state: "success", output: { inline: { status, body: null } } })
  })

  test("with Retry-After delays the retry, by at most an hour", async () => {
    const { run } = await setup((_, response) => response.writeHead(429, { "retry-after": "7" }).end())
    expect((await run()).result).toMatchObject({ state: "failed", retryAfterMs: 7000 })
    const now = Date.parse("2026-01-01T00:00:00Z")
    expect(retryAfterMs("Thu, 01 Jan 2026 00:00:30 GMT", now)).toBe(30_000)
    expect(retryAfterMs("Thursday, 01-Jan-26 00:00:30 GMT", now)).toBe(30_000)
    expect(retryAfterMs("86400", now)).toBe(3_600_000)
  })

  test.each([null, "soon", "", "0", "-5", "1.5", "Wed, 31 Dec 2025 00:00:00 GMT", "2026-01-02"])(
    "with a Retry-After of %s keeps the task's back-off",
    (header) => {
      expect(retryAfterMs(header, Date.parse("2026-01-01T00:00:00Z"))).toBeNull()
    },
  )
})

test.each([
  ["cancel", { state: "cancelled" }],
  ["timeout", { state: "timeout" }],
  ["shutdown", { state: "lost" }],
] as const)("an abort by %s ends the request", async (reason, expected) => {
  const arrived = Promise.withResolvers<ServerResponse>()
  const { start } = await setup((_, response) =>
    arrived.resolve(response.writeHead(200).write("half of it") ? response : response),
  )
  const running = start({})
  const response = await arrived.promise
  const gone = new Promise((resolve) => response.on("close", resolve))
  running.stop(reason)
  expect(await running.result).toMatchObject(expected)
  await gone
})

test("redirects are logged, and a secret in a header is not sent to another host", async () => {
  const other = await startWebServer((_, response) => response.end("there"))
  const { web, run } = await setup((_, response) => response.writeHead(302, { location: `${other.url}/y` }).end())
  const { result, log } = await run({ headers: { "X-Key": "hunter2", plain: "p" } }, { secrets: ["hunter2"] })
  expect(result.state).toBe("success")
  expect(web.requests[0]!.headers["x-key"]).toBe("hunter2")
  expect([other.requests[0]!.headers["x-key"], other.requests[0]!.headers["plain"]]).toEqual([undefined, undefined])
  expect(log[1]).toBe(`< 302, on to ${other.url}/y`)
})

test("secrets in the address or in the response are in no output, error or log", async () => {
  const { web, run } = await setup(({ headers, path }, response) =>
    json(response, { you: headers["x-key"]! }, path.startsWith("/bad") ? 400 : 200),
  )
  const secrets = ['hunter"2', `${web.url}/way/in?token=t`]
  const headers = { "X-Key": 'hunter"2' }
  for (const url of [`${web.url}/x`, `${web.url}/bad/hunter"2?hunter"2`, `${web.url}/way/in?token=t`, `nowhere hunter"2`]) {
    const reported = JSON.stringify(await run({ headers, url }, { secrets }))
    expect(reported).not.toMatch(/hunter|way|token/)
  }
  expect(web.requests.map(({ path }) => path)).toEqual(["/x", "/bad/hunter%222?hunter%222", "/way/in?token=t"])
  expect(await run({ headers }, { secrets })).toMatchObject({ result: { output: { inline: { body: { you: "***" } } } } })
})

test("a redirect to a host that the policy forbids is not followed", async () => {
  const { web, run } = await setup(({ path }, response) =>
    path.startsWith("/x") ? response.writeHead(302, { location: `http://localhost:${web.port}/y` }).end() : response.end(),
  )
  const policy = { ...DEFAULT_POLICY.fields, hosts: ["127.0.0.1"] }
  const error = "the policy of this server does not allow the host localhost (policy.hosts in ork.yaml)"
  expect((await run({}, { policy })).result).toMatchObject({ state: "failed", error, retryable: false })
  expect((await run({ url: `http://localhost.:${web.port}/x` }, { policy })).result).toMatchObject({ state: "failed", error })
  expect(web.requests).toHaveLength(1)
})
