// Sign-in of users against a real OpenID provider.

import { type AddressInfo, createServer } from "node:net"
import { expect, onTestFinished, test, vi } from "vitest"
import { parseOidc } from "../../core/settings/oidc.ts"
import { listen } from "../http/server.ts"
import { setup as setupApi } from "../testing/setup.ts"
import { startOpenIdProvider } from "../testing/openid-provider.ts"

const freePort = async (): Promise<number> => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

const ROLES = { viewer: ["everybody"], operator: ["operators"], author: ["authors"], admin: ["admins"] }

const setup = async (roles: object = ROLES) => {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const provider = await startOpenIdProvider(`${url}/ui/sign-in/callback`)
  onTestFinished(() => provider.close())
  const oidc = parseOidc({ issuer: provider.issuer, client_id: "ork", client_secret: "OIDC", roles })!
  const api = await setupApi({
    config: { oidc },
    oidcFetch: provider.fetch,
    secret: (name) => (name === "OIDC" ? provider.clientSecret : null),
  })
  onTestFinished(() => api[Symbol.asyncDispose]())
  await listen(api.server, { host: "127.0.0.1", port })
  const begin = async () => {
    const response = await fetch(`${url}/ui/sign-in/oidc`, { redirect: "manual" })
    return { location: response.headers.get("location")!, cookie: response.headers.get("set-cookie")!.split(";")[0]! }
  }
  const finish = (answer: string, cookie: string) => fetch(answer, { redirect: "manual", headers: { cookie } })
  /** Signs a user in and returns the final response. */
  const signIn = async (user: string) => {
    const { location, cookie } = await begin()
    return finish(await provider.signIn(location, user), cookie)
  }
  const sessionOf = (response: Response): string =>
    response.headers
      .getSetCookie()
      .find((each) => each.startsWith("ork_session="))!
      .split(";")[0]!
  const call = (method: string, path: string, cookie: string, body?: object) =>
    api.call(method, path, { key: null, headers: { cookie, "x-ork-request": "1" }, ...(body !== undefined && { body }) })
  return { api, provider, begin, finish, signIn, sessionOf, call }
}

test("a user signs in, and the session has the name and the scopes of the user's role", async () => {
  const { provider, signIn, sessionOf, call, api } = await setup()
  provider.groups["alice"] = ["everybody", "operators"]
  const response = await signIn("alice")
  expect([response.status, response.headers.get("location")]).toEqual([303, "/ui/"])
  const cookie = sessionOf(response)
  expect((await call("GET", "/session", cookie)).body).toMatchObject({ user: "alice Example", scopes: ["trigger"] })
  await api.deploy("etl", { a: "true" })
  expect((await call("POST", "/workflows/etl/runs", cookie)).status).toBe(201)
  expect((await call("DELETE", "/workflows/etl", cookie)).status).toBe(403)
  const entries = (await api.call("GET", "/audit")).body["items"] as { action: string }[]
  const entryOf = (action: string) => entries.find((entry) => entry.action === action)
  expect(entryOf("run.create")).toMatchObject({ actor: "alice Example", subject: "alice", key_id: null, result: "ok" })
  expect(entryOf("session.start")).toMatchObject({ actor: "alice Example", subject: "alice", details: "operator" })
  await call("POST", "/ui/sign-out", cookie)
  expect((await call("GET", "/runs", cookie)).status).toBe(401)
})

test.each([
  ["everybody", ["read"]],
  ["authors", ["author"]],
  ["admins", ["admin"]],
])("a user of the group %s has the scopes %j", async (group, scopes) => {
  const { provider, signIn, sessionOf, call } = await setup()
  provider.groups["bob"] = [group]
  expect((await call("GET", "/session", sessionOf(await signIn("bob")))).body).toMatchObject({ scopes })
})

test("a role that is limited to some workflows applies to them only", async () => {
  const roles = [
    { group: "everybody", role: "viewer" },
    { group: "sales", role: "operator", workflows: ["sales-*"] },
  ]
  const { provider, signIn, sessionOf, call, api } = await setup(roles)
  await api.deploy("sales-orders", { a: "true" })
  await api.deploy("payroll", { a: "true" })
  provider.groups["alice"] = ["everybody", "sales"]
  const alice = sessionOf(await signIn("alice"))
  expect((await call("POST", "/workflows/sales-orders/runs", alice)).status).toBe(201)
  expect((await call("POST", "/workflows/payroll/runs", alice)).status).toBe(403)
  expect((await call("GET", "/workflows/payroll", alice)).status).toBe(200)
  provider.groups["bob"] = ["sales"]
  const bob = sessionOf(await signIn("bob"))
  expect((await call("GET", "/workflows/payroll", bob)).status).toBe(404)
  expect((await call("GET", "/workflows", bob)).body["items"]).toMatchObject([{ name: "sales-orders" }])
})

test("a user without a role is refused", async () => {
  const { signIn, api } = await setup()
  const response = await signIn("mallory")
  expect([response.status, response.headers.get("location")]).toEqual([303, "/ui/welcome?problem=role"])
  expect(response.headers.getSetCookie().join()).not.toContain("ork_session")
  expect(api.logged.join("")).not.toContain("code=")
  const entries = async () => (await api.call("GET", "/audit")).body["items"]
  const refusal = { action: "session.start", result: "FORBIDDEN", actor: null, address: "127.0.0.1" }
  await vi.waitFor(async () => expect(await entries()).toMatchObject([refusal]))
})

test("an answer is accepted only from the browser that began, and only once", async () => {
  const { provider, begin, finish } = await setup()
  provider.groups["alice"] = ["admins"]
  const first = await begin()
  const answer = await provider.signIn(first.location, "alice")
  const other = await begin()
  for (const cookie of ["", other.cookie]) {
    const refused = await finish(answer, cookie)
    expect([refused.status, refused.headers.get("location")]).toEqual([303, "/ui/welcome?problem=oidc"])
  }
  expect((await finish(answer, first.cookie)).headers.get("location")).toBe("/ui/")
  expect((await finish(answer, first.cookie)).headers.get("location")).toBe("/ui/welcome?problem=oidc")
})

test("a provider that cannot be reached does not stop sign-in with keys", async () => {
  const oidc = parseOidc({ issuer: "https://127.0.0.1:9", client_id: "ork", roles: { viewer: ["*"] } })!
  const api = await setupApi({ config: { oidc } })
  onTestFinished(() => api[Symbol.asyncDispose]())
  expect((await api.call("GET", "/ui/sign-in/oidc", { key: null })).status).toBe(503)
  expect((await api.call("GET", "/runs")).status).toBe(200)
})
