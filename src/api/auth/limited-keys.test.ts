// Calls every route with keys that are limited to some workflows.

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import type { KeyScope } from "../../store/contract/keys.ts"
import { listen } from "../http/server.ts"
import { concernsOf, type Route } from "../http/route.ts"
import { ROUTES } from "../routes/table.ts"
import { openStream } from "../testing/client.ts"
import { setup } from "../testing/setup.ts"

const UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"

/** Workflows with a run each. The limited keys may read `sales-orders` only. */
const SALES = "sales-orders"
const FOREIGN = "payroll"

type Api = Awaited<ReturnType<typeof setup>>

interface Limits {
  workflows?: string[]
  tags?: string[]
}

const newKey = async (api: Api, scopes: KeyScope[], limits: Limits): Promise<string> => {
  const { status, body } = await api.call("POST", "/keys", { body: { name: "limited", scopes, ...limits } })
  expect(status).toBe(201)
  return body["key"] as string
}

const start = async () => {
  const api = await setup()
  await api.deploy(SALES, { a: "echo hello" }, { tags: ["sales"], schedule: "0 0 1 1 *" })
  await api.deploy(FOREIGN, { a: "echo secret" }, { tags: ["hr"], schedule: "0 0 1 1 *" })
  return { api, runs: { [SALES]: await api.runToEnd(SALES), [FOREIGN]: await api.runToEnd(FOREIGN) } }
}

let api: Api
let runs: { [workflow: string]: string }
let before = ""
const keys: { by: string; key: string; readKey: string }[] = []

beforeAll(async () => {
  ;({ api, runs } = await start())
  for (const limits of [{ workflows: ["sales-*"] }, { tags: ["sales"] }, { workflows: ["*"], tags: ["sales"] }]) {
    const by = JSON.stringify(limits)
    keys.push({ by, key: await newKey(api, ["admin"], limits), readKey: await newKey(api, ["read"], limits) })
  }
  before = await state()
})

afterAll(async () => {
  expect(await state()).toBe(before)
  await api[Symbol.asyncDispose]()
})

/** Returns everything that a rejected request must not change. */
const state = async (): Promise<string> => {
  const paths = ["/workflows", "/runs", "/jobs", "/queues"]
  return JSON.stringify(await Promise.all(paths.map(async (path) => (await api.call("GET", path)).body["items"])))
}

/** Fills in the path of a route for a workflow. */
const fill = ({ path }: Route, workflow: string): string => {
  const values: { [name: string]: string } = {
    id: runs[workflow] ?? UNKNOWN,
    name: path.startsWith("/workflows") ? workflow : "a",
  }
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? UNKNOWN)
}

const call = (route: Route, path: string, key: string) =>
  api.call(route.method, path, { key, ...(route.method !== "GET" && { body: {} }) })

const named = (routes: readonly Route[]) => routes.map((route) => [`${route.method} ${route.path}`, route] as const)
const guarded = ROUTES.filter(({ scope }) => scope !== null)
const concerning = (...kinds: ReturnType<typeof concernsOf>[]) =>
  named(guarded.filter((route) => kinds.includes(concernsOf(route))))
const isStream = ({ path }: Route): boolean => path.endsWith("/events")

test("every route decides what limits to workflows mean for it", () => {
  expect(concerning(undefined).map(([name]) => name)).toEqual([])
  expect(concerning("caller").map(([name]) => name)).toEqual([
    "POST /workflows/validate",
    "PUT /bundles/{hash}",
    "GET /session",
    "POST /sign-in-links",
  ])
})

describe.each(concerning("workflow", "run"))("%s", (_name, route) => {
  test("does not find another workflow or its runs", async () => {
    for (const { key } of keys) {
      const { status, body } = await call(route, fill(route, FOREIGN), key)
      const unknown = await call(route, fill(route, "unknown"), key)
      expect([status, body.error?.code]).toEqual([404, "NOT_FOUND"])
      expect(body.error?.message.replaceAll(runs[FOREIGN]!, UNKNOWN).replaceAll(FOREIGN, "unknown")).toBe(
        unknown.body.error?.message,
      )
    }
  })

  test("finds the workflow of the key, if the scope allows it", async () => {
    for (const { readKey } of keys) {
      if (isStream(route)) continue
      const { status } = await call(route, fill(route, SALES), readKey)
      if (route.scope === "read") expect([401, 403, 404]).not.toContain(status)
      else expect(status).toBe(403)
    }
  })
})

describe.each(concerning("list").filter(([, route]) => !isStream(route)))("%s", (_name, route) => {
  test("lists only what the key may see", async () => {
    for (const { key, by } of keys) {
      const { text, body } = await call(route, route.path, key)
      expect(body["items"], by).toHaveLength(1)
      expect(text).toContain(SALES)
      expect(text).not.toContain(FOREIGN)
      expect(text).not.toContain(runs[FOREIGN])
      expect(
        (await call(route, `${route.path}?${route.path === "/workflows" ? "search" : "workflow"}=${FOREIGN}`, key)).body,
      ).toMatchObject({
        items: [],
      })
    }
  })
})

describe.each(concerning("server"))("%s", (_name, route) => {
  test("is for keys without limits", async () => {
    for (const { key } of keys) {
      const { status, body } = await call(route, fill(route, SALES), key)
      expect([status, body.error?.code]).toEqual([403, "FORBIDDEN"])
    }
  })
})

test("a run is listed with every filter", async () => {
  for (const { key } of keys) {
    for (const filter of ["status=success", "trigger=manual", "status=success&trigger=manual", `workflow=${SALES}`]) {
      expect((await api.call("GET", `/runs?${filter}`, { key })).body["items"]).toMatchObject([{ workflow: SALES }])
    }
    expect((await api.call("GET", "/runs?status=failed", { key })).body["items"]).toEqual([])
  }
})

test("the events of other workflows and of jobs are left out", async () => {
  const { api: own } = await start()
  onTestFinished(() => own[Symbol.asyncDispose]())
  const key = await newKey(own, ["read"], { tags: ["sales"] })
  const address = await listen(own.server, { host: "127.0.0.1", port: 0 })
  const live = await openStream(`${address}/events`, { "x-api-key": key })
  const past = await openStream(`${address}/events?after=0.0`, { "x-api-key": key })
  onTestFinished(() => [live, past].forEach((stream) => stream.close()))
  await live.until("id: ")
  const foreign = await own.runToEnd(FOREIGN)
  await own.call("POST", "/jobs", { body: { name: "some-job", task: { command: "true" } } })
  const visible = await own.runToEnd(SALES)
  for (const stream of [live, past]) {
    const text = await stream.until(new RegExp(`${visible}[^\\n]*success`))
    expect(text).not.toContain(foreign)
    expect(text).not.toContain("event: job")
  }
})

describe("an author who is limited to some workflows", () => {
  const setupAuthor = async (limits: Limits) => {
    const { api: own } = await start()
    onTestFinished(() => own[Symbol.asyncDispose]())
    const key = await newKey(own, ["author"], limits)
    const deploy = async (definition: object) =>
      (await own.call("POST", "/workflows", { key, body: { tasks: { a: { command: "true" } }, ...definition } })).status
    return { own, key, deploy }
  }

  test("deploys workflows with the names", async () => {
    const { deploy } = await setupAuthor({ workflows: ["sales-*"] })
    expect(await deploy({ name: "sales-new" })).toBe(201)
    expect(await deploy({ name: FOREIGN })).toBe(403)
    expect(await deploy({ name: "new" })).toBe(403)
  })

  test("deploys workflows with the tags, and takes over no other", async () => {
    const { deploy, own } = await setupAuthor({ tags: ["sales"] })
    expect(await deploy({ name: "new", tags: ["sales"] })).toBe(201)
    expect(await deploy({ name: "new" })).toBe(403)
    expect(await deploy({ name: FOREIGN, tags: ["sales"] })).toBe(403)
    await own.call("DELETE", `/workflows/${FOREIGN}`)
    expect(await deploy({ name: FOREIGN, tags: ["sales"] })).toBe(403)
  })

  test("starts no other workflow by a task", async () => {
    const { deploy } = await setupAuthor({ workflows: ["sales-*"] })
    const starting = (workflow: string) => deploy({ name: "sales-new", tasks: { a: { executor: "workflow", workflow } } })
    expect(await starting(SALES)).toBe(201)
    expect(await starting(FOREIGN)).toBe(403)
    expect(await starting("${{ params.name }}")).not.toBe(200)
  })

  test("waits for no other workflow", async () => {
    const { deploy } = await setupAuthor({ workflows: ["sales-*"] })
    const waiting = (workflow: string) => deploy({ name: "sales-new", tasks: { a: { executor: "wait", workflow } } })
    expect(await waiting(SALES)).toBe(201)
    expect(await waiting(FOREIGN)).toBe(403)
    expect(await waiting(`\${{ "${FOREIGN}" }}`)).toBe(403)
  })

  test("follows no other workflow by a trigger", async () => {
    const { deploy } = await setupAuthor({ workflows: ["sales-*"] })
    const following = (after: string) => deploy({ name: "sales-new", triggers: [{ after }] })
    expect(await following(SALES)).toBe(201)
    expect(await following(FOREIGN)).toBe(403)
  })
})

test("the session shows the scopes for a workflow, and those for the server", async () => {
  const key = await newKey(api, ["trigger"], { workflows: ["sales-*"] })
  const sessionOf = async (query: string) => (await api.call("GET", `/session${query}`, { key })).body
  expect(await sessionOf("")).toMatchObject({ scopes: ["trigger"], server_scopes: [] })
  expect(await sessionOf(`?workflow=${SALES}`)).toMatchObject({ scopes: ["trigger"] })
  expect(await sessionOf(`?workflow=${FOREIGN}`)).toMatchObject({ scopes: [] })
})

test("a key of workers has no limits to workflows", async () => {
  const body = { name: "w", scopes: ["worker"], workflows: ["a"] }
  expect((await api.call("POST", "/keys", { body })).body.error?.message).toContain("limit its queues instead")
})
