// Attacks with wrong, removed, weak and stolen keys, and on the command that has the admin key.

import { spawnSync } from "node:child_process"
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Attack } from "../attack.ts"
import { pause, startReceiver, type Target } from "../target.ts"

/** Routes that need a scope, with a scope that must not suffice. */
const FORBIDDEN: [method: string, path: string, scopes: string[]][] = [
  ["POST", "/workflows", ["read", "trigger", "worker"]],
  ["POST", "/workflows/validate", ["trigger", "worker"]],
  ["DELETE", "/workflows/x", ["read", "trigger", "worker"]],
  ["POST", "/workflows/x/runs", ["read", "worker"]],
  ["POST", "/runs/x/cancel", ["read", "worker"]],
  ["DELETE", "/runs/x", ["read", "trigger", "worker"]],
  ["GET", "/runs", ["worker"]],
  ["GET", "/keys", ["read", "trigger", "worker"]],
  ["POST", "/keys", ["read", "trigger", "worker"]],
  ["GET", "/audit", ["read", "trigger", "worker"]],
  ["PUT", "/queues/default", ["read", "trigger", "worker"]],
  ["POST", "/workers", ["read", "trigger"]],
  ["GET", "/metrics", ["worker"]],
]

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
]

const statusOf = async (target: Target, method: string, path: string, key: string | null): Promise<number> =>
  (await target.call(method, path, { key, ...(method !== "GET" && method !== "DELETE" && { body: {} }) })).status

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
      for (const scope of ["read", "trigger", "worker"]) keys.set(scope, (await target.newKey({ scopes: [scope] })).key)
      for (const [method, path, scopes] of FORBIDDEN) {
        for (const spelling of spellings(path)) {
          for (const scope of [...scopes, "none", "wrong"]) {
            const key = scope === "none" ? null : scope === "wrong" ? "ork_wrong" : keys.get(scope)!
            const status = await statusOf(target, method, spelling, key)
            if (status < 300) return `${method} ${spelling} with scope ${scope} replied ${status}`
            if (scope === "wrong") break
          }
        }
      }
      return null
    },
  },
  {
    name: "keys: wrong keys lock out the administrator",
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
      const foreign = { cookie, origin: "https://evil.example", "sec-fetch-site": "cross-site" }
      const { status } = await target.call("POST", "/keys", {
        key: null,
        headers: foreign,
        body: { name: "stolen", scopes: ["admin"] },
      })
      return status < 300 ? "a request of another site created a key" : null
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
