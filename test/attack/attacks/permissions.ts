// Attacks by callers who are limited to some workflows, by name or by tag, on all others: keys, and users whose roles are limited.

import { type AddressInfo, createServer } from "node:net"
import { startOpenIdProvider } from "../../../src/api/testing/openid-provider.ts"
import type { Attack } from "../attack.ts"
import { onFreshServer } from "../fresh-server.ts"
import { pause, type Target } from "../target.ts"
import { type Operation, operations } from "./keys.ts"

/** The workflow of the callers. All others are foreign to them. */
const OWN = { name: "sales-orders", tags: ["sales"], tasks: { a: { command: "true" } } }
const FOREIGN = "payroll"
/** A text in everything that belongs to foreign workflows. */
const MARKER = "marker-of-payroll-4e7a"
const IDEMPOTENCY_KEY = "shared-key-of-two-workflows"

const foreign = (command: string) => ({
  tags: ["hr"],
  description: MARKER,
  params: { text: { type: "string", default: MARKER } },
  schedule: "0 0 1 1 *",
  tasks: { a: { command } },
})

interface World {
  /** Foreign runs. */
  ended: string
  running: string
}

interface Caller {
  by: string
  headers: Record<string, string>
}

const LIMITS = [{ workflows: ["sales-*"] }, { tags: ["sales"] }, { workflows: ["*"], tags: ["sales"] }]

const keysOf = (target: Target): Promise<Caller[]> =>
  Promise.all(
    LIMITS.map(async (limits) => {
      const { key } = await target.newKey({ scopes: ["admin"], ...limits })
      return { by: `a key with ${JSON.stringify(limits)}`, headers: { "x-api-key": key } }
    }),
  )

const prepare = async (target: Target): Promise<World> => {
  const shown = `echo ${MARKER}; echo '{"text":"${MARKER}"}'`
  for (const definition of [OWN, { name: FOREIGN, ...foreign(shown) }, { name: `${FOREIGN}-slow`, ...foreign("sleep 600") }]) {
    const rejected = await target.deploy(definition)
    if (rejected !== null) throw new Error(rejected)
  }
  const body = { idempotency_key: IDEMPOTENCY_KEY }
  const first = await target.call("POST", `/workflows/${FOREIGN}/runs`, { body })
  await target.run(OWN.name)
  await target.run(FOREIGN)
  const running = await target.call("POST", `/workflows/${FOREIGN}-slow/runs`, { body: {} })
  return { ended: String(first.body["id"]), running: String(running.body["id"]) }
}

const cleanUp = async (target: Target, { running }: World): Promise<void> => {
  await target.call("POST", `/runs/${running}/cancel`, { body: {} })
}

/** Time for which an event stream is read. */
const STREAM_MS = 700

/** Sends a request and reads its response: a stream for a while, anything else completely. */
const send = async (
  target: Target,
  caller: Caller,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; text: string }> => {
  const stop = new AbortController()
  const response = await fetch(target.url + path, {
    method,
    headers: { ...caller.headers, "x-ork-request": "1", ...(method !== "GET" && { "content-type": "application/json" }) },
    ...(method !== "GET" && { body: JSON.stringify(body ?? {}) }),
    signal: AbortSignal.any([stop.signal, AbortSignal.timeout(30_000)]),
  })
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true
  const timer = isStream ? setTimeout(() => stop.abort(), STREAM_MS) : undefined
  let text = ""
  try {
    for await (const part of (response.body ?? []) as AsyncIterable<Uint8Array>) text += Buffer.from(part).toString()
  } catch (error) {
    if (!stop.signal.aborted) throw error
  }
  clearTimeout(timer)
  return { status: response.status, text }
}

/** Every address of a foreign run. */
const addresses = ({ ended, running }: World): string[] => [
  ended,
  running,
  ended.toUpperCase(),
  encodeURIComponent(`${FOREIGN}#1`),
  encodeURIComponent(`${FOREIGN}-slow#1`),
]

/** Returns the paths of a route that name a foreign workflow or run; none if the route names neither. */
const foreignPaths = ({ path }: Operation, world: World): string[] => {
  const filled = (values: { [name: string]: string }): string =>
    path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name] ?? "x")
  if (path.startsWith("/workflows/{name}")) return [FOREIGN, `${FOREIGN}-slow`].map((name) => filled({ name }))
  if (path.startsWith("/runs/{id}")) return addresses(world).map((id) => filled({ id, name: "a" }))
  return []
}

/** Requests of the world through every route with the given methods. Returns the first that a caller reaches. */
const reachForeign = async (
  target: Target,
  callers: readonly Caller[],
  world: World,
  isWanted: (operation: Operation) => boolean,
): Promise<string | null> => {
  const wanted = (await operations(target)).filter(isWanted)
  if (wanted.length < 10) throw new Error(`only ${wanted.length} routes were found`)
  for (const operation of wanted) {
    for (const path of foreignPaths(operation, world)) {
      for (const caller of callers) {
        const { status, text } = await send(target, caller, operation.method, path)
        if (status < 400 || status >= 500 || text.includes(MARKER))
          return `${operation.method} ${path} by ${caller.by} replied ${status}`
      }
    }
  }
  return null
}

const QUERIES = [
  "",
  "?limit=1",
  `?search=${FOREIGN}`,
  `?search=${FOREIGN.slice(0, 3)}`,
  `?workflow=${FOREIGN}`,
  "?workflow=*",
  "?tag=hr",
  "?status=running",
  "?status=success&trigger=manual",
  "?after=0.0",
  "?after=0",
  `?cursor=${Buffer.from("{}").toString("base64url")}`,
]

/** Reads everything that names no workflow or run: lists, searches, streams, exports and statistics. */
const listForeign = async (target: Target, callers: readonly Caller[], world: World): Promise<string | null> => {
  const lists = (await operations(target)).filter(({ method, path }) => method === "GET" && !path.includes("{"))
  for (const { path } of lists) {
    for (const query of QUERIES) {
      for (const caller of callers) {
        const { status, text } = await send(target, caller, "GET", path + query)
        const seen = [MARKER, world.ended, world.running, FOREIGN].find((each) => text.includes(each))
        if (status < 300 && seen !== undefined) return `GET ${path}${query} by ${caller.by} shows ${seen}`
        if (status >= 500) return `GET ${path}${query} by ${caller.by} replied ${status}`
      }
    }
  }
  return null
}

/** Opens streams, and starts foreign runs meanwhile. */
const overhear = async (target: Target, callers: readonly Caller[], world: World): Promise<string | null> => {
  const heard = callers.flatMap((caller) =>
    ["/events", "/events?after=0.0"].map(async (path) => ({ caller, path, ...(await send(target, caller, "GET", path)) })),
  )
  await pause(100)
  await target.run(FOREIGN)
  await target.call("POST", "/jobs", { body: { name: FOREIGN, queue: "nobody-serves" } })
  for (const { caller, path, text } of await Promise.all(heard)) {
    const seen = [MARKER, FOREIGN, world.running].find((each) => text.includes(each))
    if (seen !== undefined) return `${path} by ${caller.by} shows ${seen}`
  }
  return null
}

const TAKEOVERS: { what: string; path: string; body: unknown }[] = [
  { what: "replaces the workflow", path: "/workflows", body: { ...OWN, name: FOREIGN } },
  {
    what: "deploys a task that starts the workflow",
    path: "/workflows",
    body: { ...OWN, name: "sales-new", tasks: { a: { executor: "workflow", workflow: FOREIGN } } },
  },
  {
    what: "deploys a task that starts a workflow by an expression",
    path: "/workflows",
    body: {
      ...OWN,
      name: "sales-new",
      params: { w: { type: "string", default: FOREIGN } },
      tasks: { a: { executor: "workflow", workflow: "${{ params.w }}" } },
    },
  },
  {
    what: "deploys a task that waits for the workflow",
    path: "/workflows",
    body: { ...OWN, name: "sales-new", tasks: { a: { executor: "wait", workflow: FOREIGN } } },
  },
  {
    what: "deploys a task that waits for a workflow by an expression",
    path: "/workflows",
    body: { ...OWN, name: "sales-new", tasks: { a: { executor: "wait", workflow: `\${{ "${FOREIGN}" }}` } } },
  },
  {
    what: "deploys a trigger that follows the workflow",
    path: "/workflows",
    body: { ...OWN, name: "sales-new", triggers: { after: FOREIGN } },
  },
  { what: "creates a key without limits", path: "/keys", body: { name: "wide", scopes: ["admin"] } },
  { what: "starts a job", path: "/jobs", body: { name: "j", task: { command: "true" } } },
  { what: "triggers by a hook", path: `/hooks/${FOREIGN}`, body: {} },
  {
    what: "registers a worker",
    path: "/workers",
    body: { name: "w", queues: ["default"], labels: [], capacity: 1, version: "1" },
  },
]

const takeOver = async (target: Target, callers: readonly Caller[], world: World): Promise<string | null> => {
  for (const caller of callers) {
    for (const { what, path, body } of TAKEOVERS) {
      const { status } = await send(target, caller, "POST", path, body)
      if (status < 400 || status >= 500) return `${caller.by} ${what}: ${status}`
    }
    const body = { idempotency_key: IDEMPOTENCY_KEY }
    const { text } = await send(target, caller, "POST", `/workflows/${OWN.name}/runs`, body)
    if (text.includes(world.ended)) return `the idempotency key of another workflow gives ${caller.by} its run`
  }
  return null
}

/** Returns what an administrator sees of the foreign workflows. */
const stateOf = async (target: Target, { ended, running }: World): Promise<string> => {
  const replies = await Promise.all(
    [`/runs/${ended}`, `/runs/${running}`, `/workflows/${FOREIGN}`, `/workflows/${FOREIGN}-slow`].map((path) =>
      target.call("GET", path),
    ),
  )
  const fields = ["status", "cancelling", "paused", "generation", "version", "tags", "note", "schedules"]
  return JSON.stringify(replies.map(({ body }) => fields.map((field) => body[field])))
}

const change = async (target: Target, callers: readonly Caller[], world: World): Promise<string | null> => {
  const before = await stateOf(target, world)
  const reached = await reachForeign(target, callers, world, ({ method }) => method !== "GET")
  const after = await stateOf(target, world)
  return reached ?? (before === after ? null : `a foreign workflow changed: ${before} → ${after}`)
}

const PARTS: { what: string; attack(target: Target, callers: readonly Caller[], world: World): Promise<string | null> }[] = [
  {
    what: "reads other workflows, their runs, logs and outputs",
    attack: (target, callers, world) => reachForeign(target, callers, world, ({ method }) => method === "GET"),
  },
  { what: "triggers, cancels, retries or removes other workflows and their runs", attack: change },
  { what: "finds other workflows in lists, searches, exports and statistics", attack: listForeign },
  { what: "overhears the events of other workflows", attack: overhear },
  { what: "takes over other workflows", attack: takeOver },
]

const freePort = async (): Promise<number> => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

const ROLES = [
  { group: "sales", role: "admin", workflows: ["sales-*"] },
  { group: "sales-tags", role: "admin", tags: ["sales"] },
  { group: "sales-operators", role: "operator", workflows: ["sales-*"] },
]

/** Signs in one user of each group. */
const usersOf = async (target: Target, provider: Awaited<ReturnType<typeof startOpenIdProvider>>): Promise<Caller[]> => {
  const callers: Caller[] = []
  for (const { group, role } of ROLES) {
    provider.groups[group] = [group]
    const begun = await fetch(`${target.url}/ui/sign-in/oidc`, { redirect: "manual" })
    const cookie = begun.headers.get("set-cookie")!.split(";")[0]!
    const answer = await provider.signIn(begun.headers.get("location")!, group)
    const ended = await fetch(answer, { redirect: "manual", headers: { cookie } })
    const session = ended.headers.getSetCookie().find((each) => each.startsWith("ork_session="))
    if (session === undefined) throw new Error(`the user could not sign in: ${ended.headers.get("location")}`)
    callers.push({ by: `a user with the role ${role} of ${group}`, headers: { cookie: session.split(";")[0]! } })
  }
  return callers
}

export const permissionAttacks: Attack[] = [
  ...PARTS.map(({ what, attack }) => ({
    name: `permissions: a limited key ${what}`,
    quick: true,
    async run(target: Target) {
      const world = await prepare(target)
      const achieved = await attack(target, await keysOf(target), world)
      await cleanUp(target, world)
      return achieved
    },
  })),
  {
    name: "permissions: a user with a limited role does any of that",
    async run(target) {
      const port = await freePort()
      const url = `http://127.0.0.1:${port}`
      const provider = await startOpenIdProvider(`${url}/ui/sign-in/callback`)
      const oidc = { issuer: provider.issuer, client_id: "ork", client_secret: "OIDC", roles: ROLES }
      const env = {
        ORK_OIDC: JSON.stringify(oidc),
        ORK_URL: url,
        ORK_SECRET_OIDC: provider.clientSecret,
        NODE_EXTRA_CA_CERTS: provider.certificate,
      }
      try {
        return await onFreshServer(target, { env, flags: ["--port", String(port)] }, async (fresh) => {
          const world = await prepare(fresh)
          const callers = await usersOf(fresh, provider)
          for (const { attack } of PARTS) {
            const achieved = await attack(fresh, callers, world)
            if (achieved !== null) return achieved
          }
          return null
        })
      } finally {
        provider.close()
      }
    },
  },
]
