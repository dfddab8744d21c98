// An unavailable database, internal errors and the headers of responses.

import { once } from "node:events"
import { connect } from "node:net"
import { text } from "node:stream/consumers"
import { expect, test } from "vitest"
import { ObjectStoreError } from "../../objects/errors.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { createBundle } from "../../objects/bundles/bundles.ts"
import { StoreUnavailable } from "../../store/contract/errors.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import { listen } from "./server.ts"
import { ADMIN_KEY, setup } from "../testing/setup.ts"

/** Wraps a store whose calls fail while `broken.away` is set. */
const breakable =
  (broken: { away: boolean; fault?: Error }) =>
  (store: ServerStore): ServerStore =>
    new Proxy(store, {
      get(target, name, receiver) {
        const found: unknown = Reflect.get(target, name, receiver)
        if (typeof found !== "function" || ["advance", "close", "listInFlight"].includes(String(name))) return found
        return (...args: unknown[]): unknown => {
          const error = broken.fault ?? new StoreUnavailable("/secret/place/ork.db", "disk full")
          return broken.away ? Promise.reject(error) : (found as (...all: unknown[]) => unknown).apply(target, args)
        }
      },
    })

test("requests get 503 with Retry-After while the database is unavailable, and succeed again afterwards", async () => {
  const broken = { away: false }
  await using api = await setup({ wrap: breakable(broken) })
  await api.deploy("etl", { a: "true" })
  broken.away = true
  for (const [method, url] of [
    ["GET", "/runs"],
    ["POST", "/workflows/etl/runs"],
    ["GET", "/ready"],
  ] as const) {
    const { status, body, headers, text: sent } = await api.call(method, url)
    expect([status, body.error!.code], url).toEqual([503, "UNAVAILABLE"])
    expect(Number(headers["retry-after"])).toBeGreaterThan(0)
    expect(sent).not.toContain("secret")
  }
  expect((await api.call("GET", "/health")).status).toBe(200)
  broken.away = false
  await api.runToEnd("etl")
})

test("reads of logs get 503 while the object store is unavailable", async () => {
  const away = () => Promise.reject(new ObjectStoreError("s3://b/", "nothing responds", { cause: null, transient: true }))
  const objects = { kind: "s3", size: away, get: away, getRange: away, list: away } as unknown as ObjectStore
  await using api = await setup({ objects })
  await api.deploy("etl", { a: "true" })
  const id = await api.runToEnd("etl")
  for (const path of ["logs", "logs/times"]) {
    const { status, body, headers } = await api.call("GET", `/runs/${id}/tasks/a/${path}`)
    expect([status, body.error!.message], path).toEqual([503, "the object store is not available; try again in a moment"])
    expect(Number(headers["retry-after"])).toBeGreaterThan(0)
  }
})

test("the server is not ready while it commits nothing", async () => {
  const engine = { onEvent: () => () => undefined, stalledMs: 0 }
  await using api = await setup({ engine })
  expect((await api.call("GET", "/ready")).status).toBe(200)
  engine.stalledMs = 60_000
  const { status, body } = await api.call("GET", "/ready")
  expect([status, body.error!.message]).toEqual([503, expect.stringContaining("has committed nothing for 60 s")])
})

test("the server is not ready while it has a problem, and says which", async () => {
  const state: { problem: string | null } = { problem: null }
  await using api = await setup({ problem: () => Promise.resolve(state.problem) })
  expect((await api.call("GET", "/ready")).status).toBe(200)
  state.problem = "the disk of its data folder is full (3.9 MiB free): free some space"
  const { status, body } = await api.call("GET", "/ready")
  expect([status, body.error!.message]).toEqual([503, `not ready: ${state.problem}`])
})

test("an internal error is a 500 without details, which are in the log", async () => {
  const broken = { away: false, fault: new Error("the internals of /home/me/ork.ts:12") }
  await using api = await setup({ wrap: breakable(broken) })
  broken.away = true
  const { status, body, text: sent } = await api.call("GET", "/runs")
  expect([status, body.error!.code]).toEqual([500, "INTERNAL"])
  expect(sent).not.toMatch(/internals|\.ts|home/)
  expect(api.logged.join("")).toContain("the internals of")
  broken.away = false
})

test("responses forbid caching and content sniffing", async () => {
  await using api = await setup()
  const { headers } = await api.call("GET", "/runs")
  expect(headers["cache-control"]).toBe("no-store")
  expect(headers["x-content-type-options"]).toBe("nosniff")
})

test("HEAD works where GET does, without a body", async () => {
  await using api = await setup()
  const { status, text: sent } = await api.call("HEAD", "/health", { key: null })
  expect([status, sent]).toEqual([200, ""])
})

test("invalid HTTP and a body that is too large get an error of the common shape", async () => {
  await using api = await setup()
  const url = new URL(await listen(api.server, { host: "127.0.0.1", port: 0 }))
  const socket = connect(Number(url.port), url.hostname)
  socket.end("hello there\r\n\r\n")
  const response = await text(socket)
  expect(response).toMatch(/^HTTP\/1.1 400 [^]*"code":"VALIDATION_ERROR"/)
  const large = await fetch(new URL("/jobs", url), {
    method: "POST",
    headers: { "x-api-key": ADMIN_KEY, "content-type": "application/json" },
    body: "x".repeat(2_000_000),
  })
  expect([large.status, await large.json()]).toMatchObject([413, { error: { code: "TOO_LARGE" } }])
})

test("a connection without a request does not keep the server from closing", async () => {
  const api = await setup()
  const address = new URL(await listen(api.server, { host: "127.0.0.1", port: 0 }))
  const accepted = new Promise((resolve) => void api.server.app.server.once("connection", resolve))
  const socket = connect(Number(address.port), address.hostname)
  const ended = new Promise((resolve) => void socket.once("close", resolve))
  await accepted
  await api[Symbol.asyncDispose]()
  await ended
})

test("an upload may take longer than other requests, as long as it goes on", async () => {
  await using api = await setup({ config: { bodyMs: 200 } })
  const { port } = new URL(await listen(api.server, { host: "127.0.0.1", port: 0 }))
  const { hash, bytes } = createBundle([{ path: "a", bytes: Buffer.alloc(4000, "a"), executable: false }])
  const send = async (type: string, pieces: number): Promise<string> => {
    const socket = connect(Number(port), "127.0.0.1").on("error", () => {})
    const head = `Host: 127.0.0.1\r\nX-API-Key: ${ADMIN_KEY}\r\nContent-Type: ${type}\r\nContent-Length: ${bytes.length}\r\nConnection: close`
    socket.write(`PUT /bundles/${hash} HTTP/1.1\r\n${head}\r\n\r\n`)
    const size = Math.ceil(bytes.length / 8)
    let piece = 0
    const drip = setInterval(() => {
      if (piece < pieces) socket.write(bytes.subarray(piece * size, ++piece * size))
    }, 80)
    const response = await text(socket).catch(() => "")
    clearInterval(drip)
    return response.split("\r\n")[0]!
  }
  expect(await send("application/octet-stream", 8)).toBe("HTTP/1.1 200 OK")
  expect(await send("application/octet-stream", 7), "it stalls").toBe("")
  expect(await send("application/json", 8), "a text").toBe("")
})

test("a connection that sends nothing, or half a request, is closed", async () => {
  await using api = await setup({ config: { headersMs: 200 } })
  const { port } = new URL(await listen(api.server, { host: "127.0.0.1", port: 0 }))
  const closed = ["", "GET /health HTTP/1.1\r\nHost: loc"].map(async (text) => {
    const socket = connect(Number(port), "127.0.0.1").on("error", () => {})
    socket.resume().write(text)
    await once(socket, "close")
  })
  await Promise.all(closed)
})
