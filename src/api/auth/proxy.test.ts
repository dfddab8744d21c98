// Clients behind a proxy: their addresses, the throttle and the cookie.

import { expect, test } from "vitest"
import { ADMIN_KEY, setup, type SetupOptions } from "../testing/setup.ts"

const PROXY = "127.0.0.1"

const setupProxy = async (config: NonNullable<SetupOptions["config"]>) => {
  const api = await setup({ config: { failuresPerMinute: 3, ...config } })
  const from = (address: string, key: string | null, path = "/runs") =>
    api.call("GET", path, { key, headers: { "x-forwarded-for": address, "x-forwarded-proto": "https" } })
  const guess = async (address: string): Promise<number[]> => {
    const statuses = []
    for (let i = 0; i < 4; i++) statuses.push((await from(address, `wrong-wrong-wrong-${i}`)).status)
    return statuses
  }
  return Object.assign(api, { from, guess })
}

test("wrong keys of one client do not throttle another behind the same trusted proxy", async () => {
  await using api = await setupProxy({ trustProxy: [PROXY] })
  expect(await api.guess("192.0.2.1")).toEqual([401, 401, 401, 429])
  expect((await api.from("192.0.2.2", "wrong-wrong-wrong-5")).status).toBe(401)
})

test("without a trusted proxy, a client cannot choose its address", async () => {
  await using api = await setupProxy({})
  expect(await api.guess("192.0.2.1")).toEqual([401, 401, 401, 429])
  expect((await api.from("192.0.2.2", "wrong-wrong-wrong-5")).status).toBe(429)
})

test("a valid key is never throttled, also one that was not used before", async () => {
  await using api = await setupProxy({})
  const key = await api.newKey("read")
  await api.guess("192.0.2.1")
  expect((await api.from("192.0.2.1", key)).status).toBe(200)
  expect((await api.from("192.0.2.1", ADMIN_KEY)).status).toBe(200)
  expect((await api.call("POST", "/ui/sign-in", { key: null, body: { key } })).status).toBe(204)
  expect((await api.call("GET", `/ui/sign-in?token=${api.server.signInToken()}`, { key: null })).status).toBe(303)
})

test.each([
  ["a trusted proxy that received it over TLS", { trustProxy: [PROXY] }, true],
  ["an https address of the server", { url: "https://ork.example.com" }, true],
  ["an untrusted proxy", {}, false],
])("the cookie of %s has Secure: %s", async (_name, config, secure) => {
  await using api = await setupProxy(config)
  const { headers } = await api.call("POST", "/ui/sign-in", {
    key: null,
    body: { key: ADMIN_KEY },
    headers: { "x-forwarded-proto": "https" },
  })
  expect(String(headers["set-cookie"]).includes("; Secure")).toBe(secure)
})
