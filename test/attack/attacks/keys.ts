// Attacks with wrong, removed, weak and stolen keys, and on the command that has the admin key.

import { spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Attack } from "../attack.ts"
import { pause, type Reply, startReceiver, type Target } from "../target.ts"

/** For each scope of a key, the scopes of routes that it must not reach. */
const FORBIDDEN: { [scope: string]: readonly string[] } = {
  read: ["trigger", "author", "worker", "admin"],
  trigger: ["author", "worker", "admin"],
  author: ["worker", "admin"],
  worker: ["read", "trigger", "author", "admin"],
}

export interface Operation {
  method: string
  path: string
  scope: string
}

/** Reads all routes that require a key. */
export const operations = async (target: Target): Promise<Operation[]> => {
  const { body } = await target.call("GET", "/openapi.json", { key: null })
  const paths = body["paths"] as { [path: string]: { [method: string]: { "x-scope"?: string | null } } }
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { "x-scope": scope }]) =>
      typeof scope === "string" ? [{ method: method.toUpperCase(), path, scope }] : [],
    ),
  )
}

const spellings = (path: string): string[] => [
  path,
  `/.${path}`,
  `/%2e${path}`,
  `//${path.slice(1)}`,
  `${path}/`,
  `${path}/.`,
  `/x/..${path}`,
  `/${path.slice(1).replaceAll("/", "%2f")}`,
  path.toUpperCase(),
  `${path}?x=1`,
  `${path};a=b`,
  `${path}%00`,
  `${path}#`,
  `/api/v1/..${path}`,
  `/ui/..${path}`,
  `/ui/%2e%2e${path}`,
  `/health/..${path}`,
  `/health;${path}`,
  `\\${path.slice(1)}`,
  `${path}.json`,
  `${path}%20`,
  path.replace(/[a-z]/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
]

type Received = Pick<Reply, "status" | "text">

const reach = (target: Target, method: string, path: string, key: string | null): Promise<Received> =>
  target.exactly(method, path, { key, ...(method !== "GET" && method !== "DELETE" && { body: {} }) })

/** Returns whether the reply is one that everybody gets: that of a health check, or the page of the web UI. */
const isOpenPage = ({ text }: Received): boolean => text.startsWith("<!") || text === '{"status":"ok"}'

/** Resolves with true when the stream ends within the given time. */
const endsWithin = async (response: Response, ms: number): Promise<boolean> => {
  const drain = async (): Promise<true> => {
    const reader = response.body!.getReader()
    try {
      while (!(await reader.read()).done);
    } catch {
      // A reset ends the stream too.
    }
    return true
  }
  return await Promise.race([drain(), pause(ms).then(() => false)])
}

export const keyAttacks: Attack[] = [
  {
    name: "keys: no scope reaches the routes of another, in any spelling of the path",
    quick: true,
    async run(target) {
      const keys = new Map<string, string>()
      for (const scope of Object.keys(FORBIDDEN)) keys.set(scope, (await target.newKey({ scopes: [scope] })).key)
      const routes = await operations(target)
      if (routes.length < 50) throw new Error(`only ${routes.length} routes were found`)
      for (const { method, path: template, scope: required } of routes) {
        const path = template.replaceAll(/\{\w+\}/g, "x")
        const scopes = [...keys].filter(([scope]) => FORBIDDEN[scope]!.includes(required))
        const credentials: [string, string | null][] = [...scopes, ["none", null]]
        for (const spelling of spellings(path)) {
          const replies = credentials.map(async ([scope, key]) => ({
            scope,
            reply: await reach(target, method, spelling, key),
          }))
          for (const { scope, reply } of await Promise.all(replies)) {
            const isReached = reply.status < 300 && !isOpenPage(reply)
            if (isReached || reply.status >= 500) return `${method} ${spelling} with scope ${scope} replied ${reply.status}`
          }
        }
        const wrong = await reach(target, method, path, "ork_wrong")
        if (wrong.status !== 401 && wrong.status !== 429) return `${method} ${path} with a wrong key replied ${wrong.status}`
      }
      return null
    },
  },
  {
    name: "keys: a wrong key in other places and forms",
    quick: true,
    async run(target) {
      const { key } = target
      const forms: Record<string, string>[] = [
        { "x-api-key": "" },
        { "x-api-key": " " },
        { "x-api-key": key.slice(0, -1) },
        { "x-api-key": `${key}x` },
        { "x-api-key": key.toUpperCase() === key ? key.toLowerCase() : key.toUpperCase() },
        { "x-api-key": `${key},${key}` },
        { "x-api-key": "null" },
        { "x-api-key": "undefined" },
        { "x-api-key": "[object Object]" },
        { "x-api-key": "' OR '1'='1" },
        { authorization: "Bearer " },
        { authorization: "Bearer nothing" },
        { authorization: "Basic YWRtaW46YWRtaW4=" },
        { authorization: `Digest ${key}` },
        { cookie: "ork_session=" },
        { cookie: "ork_session=../../etc/passwd" },
        { cookie: `ork_session=${key}` },
        { cookie: `key=${key}` },
        { "x-forwarded-user": "admin" },
        { "x-remote-user": "admin" },
        { "x-original-url": "/health" },
        { "x-rewrite-url": "/health" },
        { "x-http-method-override": "GET" },
      ]
      for (const headers of forms) {
        const { status } = await target.call("GET", "/keys", { key: null, headers })
        if (status < 300) return `${JSON.stringify(headers)} was accepted`
      }
      const { status } = await target.call("GET", `/keys?key=${key}&api_key=${key}&access_token=${key}`, { key: null })
      return status < 300 ? "a key in the address was accepted" : null
    },
  },
  {
    name: "keys: a client chooses its address, to be throttled as somebody else",
    async run(target) {
      const attempts = Array.from({ length: 60 }, (_, i) =>
        target.call("GET", "/runs", {
          key: `ork_wrong_${i}`,
          headers: { "x-forwarded-for": `10.0.0.${i}`, forwarded: `for=10.0.0.${i}`, "x-real-ip": `10.0.0.${i}` },
        }),
      )
      const statuses = (await Promise.all(attempts)).map(({ status }) => status)
      return statuses.includes(429) ? null : "60 wrong keys were tried without being throttled"
    },
  },
  {
    name: "keys: wrong keys behind a reverse proxy lock out everybody, and cookies lack Secure",
    async run(target) {
      const proxied = await target.another({ env: { ORK_TRUST_PROXY: "127.0.0.1" } })
      try {
        const from = (address: string) => ({ "x-forwarded-for": address, "x-forwarded-proto": "https" })
        for (let i = 0; i < 40; i++) await proxied.call("GET", "/runs", { key: "ork_wrong", headers: from("203.0.113.5") })
        const other = await proxied.call("GET", "/runs", { key: "ork_wrong", headers: from("203.0.113.6") })
        if (other.status !== 401) return `another client got ${other.status}`
        const admin = await proxied.call("GET", "/runs", { headers: from("203.0.113.5") })
        if (admin.status !== 200) return `the administrator got ${admin.status}`
        const signedIn = await proxied.call("POST", "/ui/sign-in", {
          key: null,
          body: { key: proxied.key },
          headers: from("203.0.113.7"),
        })
        return /; *Secure/i.test(signedIn.headers.get("set-cookie") ?? "") ? null : "the cookie is not Secure"
      } finally {
        await proxied.stop()
      }
    },
  },
  {
    name: "keys: another server of the same database accepts a removed key",
    async run(target) {
      // On SQLite there is no other server.
      if (target.options.database === "sqlite") return null
      const other = await target.another()
      try {
        const { id, key } = await target.newKey({ scopes: ["read"] })
        let before = 0
        for (let i = 0; i < 40 && before !== 200; i++) {
          before = (await other.call("GET", "/runs", { key })).status
          await pause(50)
        }
        if (before !== 200) throw new Error(`the key got ${before}`)
        await target.call("DELETE", `/keys/${id}`)
        await pause(1000)
        const { status } = await other.call("GET", "/runs", { key })
        return status === 401 || status === 429 ? null : `a second later it got ${status}`
      } finally {
        await other.stop()
      }
    },
  },
  {
    name: "keys: wrong keys lock out the administrator",
    flood: true,
    quick: true,
    async run(target) {
      await Promise.all(Array.from({ length: 60 }, () => target.call("GET", "/runs", { key: "ork_wrong" })))
      const { status } = await target.call("GET", "/runs")
      return status === 200 ? null : `the admin key got ${status}`
    },
  },
  {
    name: "keys: a removed key keeps its event stream",
    quick: true,
    async run(target) {
      const { id, key } = await target.newKey({ scopes: ["read"] })
      const stream = await fetch(`${target.url}/events`, { headers: { "x-api-key": key } })
      await target.call("DELETE", `/keys/${id}`)
      if (!(await endsWithin(stream, 2000))) return "the stream was open 2 s later"
      const { status } = await target.call("GET", "/runs", { key })
      return status === 401 || status === 429 ? null : `the removed key got ${status}`
    },
  },
  {
    name: "keys: a worker outlives its key",
    async run(target) {
      const { id, key } = await target.newKey({ scopes: ["worker"] })
      const registered = await target.call("POST", "/workers", {
        key,
        body: { name: "w", queues: ["default"], capacity: 1, version: "0" },
      })
      if (registered.status >= 300) throw new Error(registered.text)
      const { id: worker, token } = registered.body as { id: string; token: string }
      await target.call("DELETE", `/keys/${id}`)
      await pause(1200)
      const beat = await target.call("POST", `/workers/${worker}/heartbeat`, { key: token, body: {} })
      if (beat.status < 300) return "a heartbeat with the token of the removed key was accepted"
      const again = await target.call("POST", "/workers", {
        key: token,
        body: { name: "w", queues: ["default"], capacity: 1, version: "0" },
      })
      return again.status < 300 ? "the token of a worker registered another worker" : null
    },
  },
  {
    name: "keys: a cookie is valid after signing out",
    async run(target) {
      const signedIn = await target.call("POST", "/ui/sign-in", { key: null, body: { key: target.key } })
      const cookie = (signedIn.headers.get("set-cookie") ?? "").split(";")[0]!
      const use = async (): Promise<number> => (await target.call("GET", "/runs", { key: null, headers: { cookie } })).status
      if ((await use()) !== 200) throw new Error("could not sign in")
      await target.call("POST", "/ui/sign-out", { key: null, headers: { cookie } })
      const status = await use()
      return status === 401 ? null : `the cookie got ${status}`
    },
  },
  {
    name: "keys: a form on another site changes something with the cookie of a user",
    quick: true,
    async run(target) {
      const signedIn = await target.call("POST", "/ui/sign-in", { key: null, body: { key: target.key } })
      const header = signedIn.headers.get("set-cookie") ?? ""
      if (!/SameSite=(Strict|Lax)/i.test(header) || !/HttpOnly/i.test(header))
        return `the cookie is ${header.split(";").slice(1).join(";")}`
      const cookie = header.split(";")[0]!
      const body = { name: "stolen", scopes: ["admin"] }
      const form = "name=stolen&scopes=admin"
      const urlencoded = "application/x-www-form-urlencoded"
      const forms: { [how: string]: { headers: Record<string, string>; body: unknown } } = {
        "a request of another site": { headers: { origin: "https://evil.example", "sec-fetch-site": "cross-site" }, body },
        "an origin only": { headers: { origin: "https://evil.example" }, body },
        "the origin null": { headers: { origin: "null" }, body },
        "a sister site": { headers: { origin: "http://127.0.0.1:1", "sec-fetch-site": "same-site" }, body },
        "a form": { headers: { "content-type": urlencoded }, body: form },
        "a form with JSON": { headers: { "content-type": "text/plain" }, body: JSON.stringify(body) },
        multipart: { headers: { "content-type": "multipart/form-data; boundary=x" }, body: `--x\r\n\r\n${form}\r\n--x--` },
        "no content type": { headers: { "content-type": "" }, body: JSON.stringify(body) },
      }
      for (const [how, { headers, body: sent }] of Object.entries(forms)) {
        const { status } = await target.call("POST", "/keys", { key: null, headers: { cookie, ...headers }, body: sent })
        if (status < 300) return `${how} created a key`
      }
      const read = await target.call("GET", "/keys", { key: null, headers: { cookie, origin: "https://evil.example" } })
      return read.headers.get("access-control-allow-origin") === null ? null : "another site may read responses"
    },
  },
  {
    name: "keys: the command sends the folder's key to whoever listens on its port",
    async run(target) {
      const folder = mkdtempSync(join(tmpdir(), "ork-attack-cli-"))
      const thief = await startReceiver(
        (_request, response) => response.writeHead(200, { "content-type": "application/json" }).end("{}"),
        4000,
      ).catch(() => null)
      if (thief === null) throw new Error("port 4000 is taken")
      try {
        cpSync(join(target.folder, ".ork/admin.key"), join(folder, ".ork/admin.key"), { recursive: true })
        spawnSync("chown", ["-R", `--reference=${target.folder}`, folder])
        await target.ork(["runs"], { cwd: folder })
        await target.ork(["workflows"], { cwd: folder })
        const key = readFileSync(join(folder, ".ork/admin.key"), "utf8").trim()
        return thief.requests.some(({ headers, body }) => headers.includes(key) || body.includes(key))
          ? "the listener got the key"
          : null
      } finally {
        thief.close()
        rmSync(folder, { recursive: true, force: true })
      }
    },
  },
  {
    name: "keys: one key opens 2,000 streams",
    flood: true,
    async run(target) {
      const { id, key } = await target.newKey({ scopes: ["read"] })
      const controller = new AbortController()
      const replies = await Promise.all(
        Array.from({ length: 600 }, () =>
          fetch(`${target.url}/events`, { headers: { "x-api-key": key }, signal: controller.signal }).then(
            ({ status }) => status,
            () => 0,
          ),
        ),
      )
      controller.abort()
      await target.call("DELETE", `/keys/${id}`)
      const opened = replies.filter((status) => status === 200).length
      return opened <= 500 ? null : `${opened} of 600 streams were opened`
    },
  },
]
