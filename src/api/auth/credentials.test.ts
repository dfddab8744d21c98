// Calls every route with every kind of insufficient credential, under both of its paths.

import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type { KeyScope } from "../../store/contract/keys.ts"
import { mayCall } from "./auth.ts"
import { pathsOf } from "../http/mount.ts"
import type { Route } from "../http/route.ts"
import { ROUTES } from "../routes/table.ts"
import { ADMIN_KEY, setup } from "../testing/setup.ts"

const SCOPES: KeyScope[] = ["read", "trigger", "author", "worker", "admin"]

let api: Awaited<ReturnType<typeof setup>>
const keys = new Map<KeyScope, string>()
let removed = ""
let ended = ""
let before = ""

beforeAll(async () => {
  api = await setup({ config: { failuresPerMinute: 1_000_000 } })
  for (const scope of SCOPES) keys.set(scope, await api.newKey(scope))
  const created = await api.call("POST", "/keys", { body: { name: "removed", scopes: ["admin"] } })
  removed = created.body["key"] as string
  expect((await api.call("GET", "/runs", { key: removed })).status).toBe(200)
  await api.call("DELETE", `/keys/${created.body["id"] as string}`)
  const signedIn = await api.call("POST", "/ui/sign-in", { key: null, body: { key: ADMIN_KEY } })
  ended = String(signedIn.headers["set-cookie"]).split(";")[0]!
  expect((await api.call("GET", "/runs", { key: null, headers: { cookie: ended } })).status).toBe(200)
  await api.call("POST", "/ui/sign-out", { key: null, headers: { cookie: ended } })
  before = await state()
})

afterAll(async () => {
  expect(await state()).toBe(before)
  await api[Symbol.asyncDispose]()
})

/** Returns everything that a rejected request must not change. */
const state = async (): Promise<string> => {
  const paths = ["/workflows", "/runs", "/jobs", "/queues", "/keys"]
  const found = await Promise.all(paths.map(async (path) => (await api.call("GET", path)).body["items"]))
  return JSON.stringify(found, (name, value: unknown) => (name === "last_used_at" ? null : value))
}

const fill = (path: string): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => (name === "name" ? "some" : "01890a5d-ac96-774b-bcce-b302099a8057"))

const call = (route: Route, path: string, headers: Record<string, string>) =>
  api.call(route.method, fill(path), {
    key: null,
    headers,
    ...(route.method !== "GET" && { body: {} }),
  })

const BAD_CREDENTIALS: [string, () => Record<string, string>][] = [
  ["no key", () => ({})],
  ["a wrong key", () => ({ "x-api-key": "wrong-key-wrong-key" })],
  ["an empty key", () => ({ "x-api-key": "" })],
  ["a wrong bearer", () => ({ authorization: "Bearer wrong-key-wrong-key" })],
  ["another authentication scheme", () => ({ authorization: `Basic ${Buffer.from(`x:${ADMIN_KEY}`).toString("base64")}` })],
  ["a removed key", () => ({ "x-api-key": removed })],
  ["a forged session", () => ({ cookie: `ork_session=${"0".repeat(64)}` })],
  ["the session of a browser that signed out", () => ({ cookie: ended })],
]

describe.each(ROUTES.filter((route) => route.scope !== null).map((route) => [`${route.method} ${route.path}`, route] as const))(
  "%s",
  (_name, route) => {
    test.each(BAD_CREDENTIALS)("rejects %s", async (_credential, headers) => {
      for (const path of pathsOf(route)) {
        const { status, body, headers: sent } = await call(route, path, headers())
        expect(status).toBe(401)
        expect(body.error?.code).toBe("UNAUTHORIZED")
        expect(sent["www-authenticate"]).toContain("Bearer")
      }
    })

    test("rejects exactly the keys whose scope is insufficient", async () => {
      for (const scope of SCOPES) {
        const sufficient = mayCall({ grants: [{ scopes: [scope], limits: null }] }, route.scope!)
        if (sufficient && (route.audit !== undefined || route.path.endsWith("events"))) continue
        const { status, body } = await call(route, route.path, { authorization: `Bearer ${keys.get(scope)!}` })
        if (sufficient) expect([401, 403]).not.toContain(status)
        else {
          expect(status).toBe(403)
          expect(body.error?.code).toBe("FORBIDDEN")
          expect(body.error?.message).toContain(route.scope)
        }
      }
    })
  },
)

test("only the routes that the specification names require no key", () => {
  const open = ROUTES.filter((route) => route.scope === null).map((route) => `${route.method} ${route.path}`)
  expect(open.toSorted()).toEqual(
    [
      "GET /health",
      "GET /ready",
      "POST /callbacks/{token}",
      "POST /hooks/{name}",
      "POST /internal/task-result",
      "GET /ui/sign-in",
      "GET /ui/sign-in/callback",
      "GET /ui/sign-in/methods",
      "GET /ui/sign-in/oidc",
      "POST /ui/sign-in",
      "POST /ui/sign-out",
    ].toSorted(),
  )
})

test("every route that changes something writes to the audit log, except frequent calls of workers", () => {
  const unaudited = ROUTES.filter((route) => route.method !== "GET" && route.scope !== null && route.audit === undefined)
  const frequent = ["heartbeat", "claim", "report", "logs", "outputs", "artifacts"].map((verb) => `/workers/{id}/${verb}`)
  expect(unaudited.map((route) => route.path)).toEqual(["/workflows/validate", ...frequent])
})
