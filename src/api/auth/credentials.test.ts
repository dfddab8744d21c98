// Every route of the table against every kind of credential that is not good enough, under both of its paths.

import { afterAll, beforeAll, describe, expect, test } from "vitest"
import type { KeyScope } from "../../store/contract/keys.ts"
import { mayCall } from "./auth.ts"
import { pathsOf } from "../http/mount.ts"
import type { Route } from "../http/route.ts"
import { ROUTES } from "../routes/table.ts"
import { setCookie, SignIns } from "./sign-ins.ts"
import { ADMIN_KEY, setup } from "../testing/setup.ts"

const SCOPES: KeyScope[] = ["read", "trigger", "worker", "admin"]

let api: Awaited<ReturnType<typeof setup>>
const keys = new Map<KeyScope, string>()
let revoked = ""
let before = ""

beforeAll(async () => {
  api = await setup({ config: { failuresPerMinute: 1_000_000 } })
  for (const scope of SCOPES) keys.set(scope, await api.newKey(scope))
  const made = await api.call("POST", "/keys", { body: { name: "gone", scopes: ["admin"] } })
  revoked = made.body["key"] as string
  expect((await api.call("GET", "/runs", { key: revoked })).status).toBe(200)
  await api.call("DELETE", `/keys/${made.body["id"] as string}`)
  before = await state()
})

afterAll(async () => {
  expect(await state()).toBe(before)
  await api[Symbol.asyncDispose]()
})

/** What no refused request may have changed. */
const state = async (): Promise<string> => {
  const paths = ["/workflows", "/runs", "/jobs", "/queues", "/keys", "/audit"]
  const found = await Promise.all(paths.map(async (path) => (await api.call("GET", path)).body["items"]))
  return JSON.stringify(found, (name, value: unknown) => (name === "last_used_at" ? null : value))
}

const fill = (path: string): string =>
  path.replaceAll(/\{(\w+)\}/g, (_, name: string) => (name === "name" ? "some" : "01890a5d-ac96-774b-bcce-b302099a8057"))

const ask = (route: Route, path: string, headers: Record<string, string>) =>
  api.call(route.method, fill(path), {
    key: null,
    headers,
    ...(route.method !== "GET" && { body: {} }),
  })

const forged = new SignIns("another-server-key", () => Date.now(), { next: () => 0, hex128: () => "0".repeat(32) })

const BAD: [string, () => Record<string, string>][] = [
  ["no key", () => ({})],
  ["a wrong key", () => ({ "x-api-key": "wrong-key-wrong-key" })],
  ["an empty key", () => ({ "x-api-key": "" })],
  ["a wrong bearer", () => ({ authorization: "Bearer wrong-key-wrong-key" })],
  ["another scheme", () => ({ authorization: `Basic ${Buffer.from(`x:${ADMIN_KEY}`).toString("base64")}` })],
  ["a removed key", () => ({ "x-api-key": revoked })],
  ["a forged session", () => ({ cookie: setCookie(forged.newSession("server"), false).split(";")[0]! })],
  ["a broken session", () => ({ cookie: "ork_session=server.99999999999." })],
]

describe.each(ROUTES.filter((route) => route.scope !== null).map((route) => [`${route.method} ${route.path}`, route] as const))(
  "%s",
  (_name, route) => {
    test.each(BAD)("refuses %s", async (_what, headers) => {
      for (const path of pathsOf(route)) {
        const { status, body, headers: sent } = await ask(route, path, headers())
        expect(status).toBe(401)
        expect(body.error?.code).toBe("UNAUTHORIZED")
        expect(sent["www-authenticate"]).toContain("Bearer")
      }
    })

    test("refuses each key whose scope is too small, and no other", async () => {
      for (const scope of SCOPES) {
        const enough = mayCall({ keyId: "", scopes: [scope], via: "key" }, route.scope!)
        if (enough && (route.audit !== undefined || route.path.endsWith("events"))) continue
        const { status, body } = await ask(route, route.path, { authorization: `Bearer ${keys.get(scope)!}` })
        if (enough) expect([401, 403]).not.toContain(status)
        else {
          expect(status).toBe(403)
          expect(body.error?.code).toBe("FORBIDDEN")
          expect(body.error?.message).toContain(route.scope)
        }
      }
    })
  },
)

test("what needs no key is what the specification names", () => {
  const open = ROUTES.filter((route) => route.scope === null).map((route) => `${route.method} ${route.path}`)
  expect(open.toSorted()).toEqual(
    [
      "GET /health",
      "GET /ready",
      "POST /callbacks/{token}",
      "POST /hooks/{name}",
      "POST /internal/task-result",
      "GET /ui/sign-in",
      "POST /ui/sign-in",
      "POST /ui/sign-out",
    ].toSorted(),
  )
})

test("every route that changes something is in the audit log", () => {
  const silent = ROUTES.filter((route) => route.method !== "GET" && route.scope !== null && route.audit === undefined)
  const steady = ["heartbeat", "claim", "report", "logs", "outputs"].map((verb) => `/workers/{id}/${verb}`)
  expect(silent.map((route) => route.path)).toEqual(["/workflows/validate", ...steady])
})
