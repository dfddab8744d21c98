import { expect, test } from "vitest"
import { ADMIN_KEY, setup } from "../../testing/setup.ts"

const cookieOf = (header: unknown): string => String(header).split(";")[0]!

test("a sign-in link works once and sets a session cookie that the API accepts", async () => {
  await using api = await setup()
  const url = `/ui/sign-in?token=${api.server.signInToken()}`
  const first = await api.call("GET", url, { key: null })
  expect([first.status, first.headers["location"]]).toEqual([303, "/ui/"])
  expect(first.headers["set-cookie"]).toMatch(/HttpOnly; SameSite=Strict/)
  const cookie = cookieOf(first.headers["set-cookie"])
  expect((await api.call("GET", "/keys", { key: null, headers: { cookie } })).status).toBe(200)
  const second = await api.call("GET", url, { key: null })
  expect([second.status, second.body.error!.code]).toEqual([401, "UNAUTHORIZED"])
  expect(second.headers["set-cookie"]).toBeUndefined()
})

test("a session has the scopes of its key and ends when the key is removed", async () => {
  await using api = await setup()
  const made = await api.call("POST", "/keys", { body: { name: "ci", scopes: ["read"] } })
  const signedIn = await api.call("POST", "/ui/sign-in", { key: null, body: { key: made.body["key"] } })
  expect(signedIn.status).toBe(204)
  const cookie = cookieOf(signedIn.headers["set-cookie"])
  const call = (method: string, url: string) => api.call(method, url, { key: null, headers: { cookie } })
  expect((await call("GET", "/runs")).status).toBe(200)
  expect((await call("GET", "/keys")).status).toBe(403)
  await api.call("DELETE", `/keys/${made.body["id"] as string}`)
  expect((await call("GET", "/runs")).status).toBe(401)
})

test("a change with a session requires a JSON body or a header that a form cannot send", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "true" })
  const signedIn = await api.call("POST", "/ui/sign-in", { key: null, body: { key: ADMIN_KEY } })
  const cookie = cookieOf(signedIn.headers["set-cookie"])
  const trigger = (headers: Record<string, string>, body?: unknown) =>
    api.call("POST", "/workflows/etl/runs", { key: null, headers: { cookie, ...headers }, ...(body !== undefined && { body }) })
  expect((await trigger({})).status).toBe(403)
  expect((await trigger({ "content-type": "text/plain" }, "{}")).status).toBe(403)
  expect((await trigger({ "x-ork-request": "1" })).status).toBe(201)
  expect((await trigger({}, {})).status).toBe(201)
  const out = await api.call("POST", "/ui/sign-out", { key: null, headers: { cookie } })
  expect(out.headers["set-cookie"]).toMatch(/^ork_session=; .*Max-Age=0/)
})

test("a change with a session is rejected when the browser reports another site as its origin", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "true" })
  const signedIn = await api.call("POST", "/ui/sign-in", { key: null, body: { key: ADMIN_KEY } })
  const cookie = cookieOf(signedIn.headers["set-cookie"])
  const trigger = async (headers: Record<string, string>) =>
    (await api.call("POST", "/workflows/etl/runs", { key: null, headers: { cookie, host: "ork:4000", ...headers }, body: {} }))
      .status
  expect(await trigger({ "sec-fetch-site": "same-origin", origin: "http://ork:4000" })).toBe(201)
  expect(await trigger({ origin: "http://ork:4000" })).toBe(201)
  expect(await trigger({ "sec-fetch-site": "cross-site" })).toBe(403)
  expect(await trigger({ "sec-fetch-site": "same-site" })).toBe(403)
  expect(await trigger({ origin: "http://evil:4000" })).toBe(403)
  expect(await trigger({ origin: "null" })).toBe(403)
  const out = await api.call("POST", "/ui/sign-out", { key: null, headers: { cookie, "sec-fetch-site": "cross-site" } })
  expect([out.status, out.headers["set-cookie"]]).toEqual([403, undefined])
  const withKey = await api.call("POST", "/workflows/etl/runs", { headers: { "sec-fetch-site": "cross-site" }, body: {} })
  expect(withKey.status).toBe(201)
})

test("a browser with an invalid link, or without one, is redirected to the form for a key", async () => {
  await using api = await setup()
  const open = (url: string) => api.call("GET", url, { key: null, headers: { accept: "text/html,*/*" } })
  const bad = await open("/ui/sign-in?token=used")
  expect([bad.status, bad.headers["location"]]).toEqual([303, "/ui/welcome?problem=link"])
  expect(bad.headers["set-cookie"]).toBeUndefined()
  expect((await open("/ui/sign-in")).headers["location"]).toBe("/ui/welcome")
})

test("the session route returns the scopes of the key", async () => {
  await using api = await setup()
  const key = await api.newKey("trigger")
  expect((await api.call("GET", "/session", { key })).body).toMatchObject({ scopes: ["trigger"], version: "1.2.3" })
  expect((await api.call("GET", "/session")).body).toMatchObject({ key_id: null, scopes: ["admin"] })
})

test("too many wrong keys throttle an address, except for valid keys", async () => {
  await using api = await setup({ config: { failuresPerMinute: 3 } })
  const known = await api.newKey("read")
  expect((await api.call("GET", "/runs", { key: known })).status).toBe(200)
  for (let i = 0; i < 3; i++) expect((await api.call("GET", "/runs", { key: `wrong-${i}` })).status).toBe(401)
  const late = await api.call("GET", "/runs", { key: "wrong-again" })
  expect([late.status, late.body.error!.code]).toEqual([429, "RATE_LIMITED"])
  expect(Number(late.headers["retry-after"])).toBeGreaterThan(0)
  expect((await api.call("POST", "/ui/sign-in", { key: null, body: { key: "wrong" } })).status).toBe(429)
  expect((await api.call("GET", "/ui/sign-in?token=wrong", { key: null })).status).toBe(429)
  expect((await api.call("GET", "/runs", { key: known })).status).toBe(200)
  expect((await api.call("GET", "/runs")).status).toBe(200)
})

test("a key is shown once and never listed or logged", async () => {
  await using api = await setup()
  const key = await api.newKey("read")
  expect(key).toMatch(/^ork_[0-9a-f]{64}$/)
  await api.call("GET", "/runs", { key })
  await api.call("GET", "/nowhere", { key })
  expect(JSON.stringify((await api.call("GET", "/keys")).body)).not.toContain(key)
  expect(api.logged.length).toBeGreaterThan(0)
  expect(api.logged.join("")).not.toContain(key)
  expect(api.logged.join("")).not.toContain(ADMIN_KEY)
})

test("a server key of fewer than 16 characters is rejected", async () => {
  await expect(setup({ config: { apiKey: "short" } })).rejects.toThrow(/16/)
})
