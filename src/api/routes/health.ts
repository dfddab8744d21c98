// Whether the server lives and can work; for load balancers, so without a key.

import { health, ready } from "../../protocol/api/service.ts"
import { unavailable } from "../http/errors.ts"
import { ExpiringCache } from "../http/expiring-cache.ts"
import type { Api } from "../http/ports.ts"
import { route } from "../http/route.ts"

const TAG = "server"
/** Anybody may ask: the checks behind it run this often at most. */
const CHECK_MS = 1000
const PATIENCE_MS = 5000

const checks = new WeakMap<Api, ExpiringCache<Promise<string[]>>>()

/** Names of the parts that do not answer. */
const failing = (api: Api): Promise<string[]> => {
  const kept = checks.get(api) ?? new ExpiringCache<Promise<string[]>>(1, CHECK_MS, () => api.clock.now())
  checks.set(api, kept)
  const running = kept.get("") ?? look(api)
  kept.set("", running)
  return running
}

const look = async (api: Api): Promise<string[]> => {
  const parts = { database: api.store.nextTickMs(), "object store": api.objects.check() }
  const found = await Promise.all(
    Object.entries(parts).map(async ([name, probe]) => ((await answers(api, probe)) ? null : name)),
  )
  return found.filter((name) => name !== null)
}

const answers = async (api: Api, probe: Promise<unknown>): Promise<boolean> => {
  let cancel = (): void => undefined
  const late = new Promise<boolean>((resolve) => {
    cancel = api.clock.after(PATIENCE_MS, () => resolve(false))
  })
  try {
    return await Promise.race([probe.then(() => true), late])
  } catch {
    return false
  } finally {
    cancel()
  }
}

export const healthRoutes = [
  route({
    method: "GET",
    path: "/health",
    tag: TAG,
    summary: "Whether the server lives",
    scope: null,
    responses: { 200: { description: "It does", schema: health } },
    handle({ api }) {
      return { status: 200, body: { status: "ok", version: api.config.version } }
    },
  }),
  route({
    method: "GET",
    path: "/ready",
    tag: TAG,
    summary: "Whether the database and the object store answer",
    scope: null,
    responses: { 200: { description: "They do", schema: ready } },
    async handle({ api }) {
      const found = await failing(api)
      if (found.length > 0) throw unavailable(`not ready: the ${found.join(" and the ")} cannot be reached`)
      return { status: 200, body: { status: "ready", store: "ok", objects: "ok" } }
    },
  }),
  route({
    method: "GET",
    path: "/metrics",
    tag: TAG,
    summary: "Figures for Prometheus",
    scope: "read",
    requires: "metrics",
    responses: { 200: { description: "In Prometheus' text format", types: ["text/plain"] } },
    async handle({ api }) {
      const body = await api.parts.metrics!()
      return { status: 200, body, headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } }
    },
  }),
]
