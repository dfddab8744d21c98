// Liveness, readiness and metrics. Load balancers call the first two without a key.

import { health, healthQuery, ready } from "../../../protocol/api/service.ts"
import { addressOf, serverProof } from "../../../protocol/wire/server-proof.ts"
import { unavailable } from "../../shared/errors.ts"
import { ExpiringCache } from "../../shared/expiring-cache.ts"
import type { Api } from "../../http/ports.ts"
import { route } from "../../http/route.ts"

/** Minimum time between two checks, because the route requires no key. */
const CHECK_MS = 1000
const TIMEOUT_MS = 5000
/** Time without a commit after which the server is not ready. */
const STALLED_MS = 10_000

const checks = new WeakMap<Api, ExpiringCache<Promise<string[]>>>()

const unavailableParts = (api: Api): Promise<string[]> => {
  const cache = checks.get(api) ?? new ExpiringCache<Promise<string[]>>(1, CHECK_MS, () => api.clock.monotonic())
  checks.set(api, cache)
  const check = cache.get("") ?? checkParts(api)
  cache.set("", check)
  return check
}

const checkParts = async (api: Api): Promise<string[]> => {
  const parts = { database: api.store.nextTickMs(), "object store": api.objects.check() }
  const found = await Promise.all(
    Object.entries(parts).map(async ([name, probe]) => ((await succeedsInTime(api, probe)) ? null : name)),
  )
  return found.filter((name) => name !== null)
}

const succeedsInTime = async (api: Api, probe: Promise<unknown>): Promise<boolean> => {
  let cancel = (): void => undefined
  const timeout = new Promise<boolean>((resolve) => {
    cancel = api.clock.after(TIMEOUT_MS, () => resolve(false))
  })
  try {
    return await Promise.race([probe.then(() => true), timeout])
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
    summary: "Check that the server is alive",
    scope: null,
    query: healthQuery,
    responses: { 200: { description: "The server is alive", schema: health } },
    handle({ query: { nonce }, request, api }) {
      const { version, folderKey, url } = api.config
      if (nonce === undefined || folderKey === undefined) return { status: 200, body: { status: "ok", version } }
      const { localAddress: host = "", localPort: port = 0 } = request.socket
      const addresses = [{ host, port }, ...(url === undefined ? [] : [addressOf(url)])]
      const proofs = addresses.map((address) => serverProof(folderKey, nonce, address))
      return { status: 200, body: { status: "ok", version, proofs } }
    },
  }),
  route({
    method: "GET",
    path: "/ready",
    summary: "Check that the database and the object store are available, and that the server commits its work",
    scope: null,
    responses: { 200: { description: "The server is ready", schema: ready } },
    async handle({ api }) {
      const found = await unavailableParts(api)
      if (found.length > 0) throw unavailable(`not ready: the ${found.join(" and the ")} cannot be reached`)
      const problem = (await api.parts.problem?.()) ?? null
      if (problem !== null) throw unavailable(`not ready: ${problem}`)
      const { stalledMs } = api.engine
      if (stalledMs > STALLED_MS)
        throw unavailable(
          `not ready: the server has committed nothing for ${Math.round(stalledMs / 1000)} s; its log tells why, or restart it`,
        )
      return { status: 200, body: { status: "ready", store: "ok", objects: "ok" } }
    },
  }),
  route({
    method: "GET",
    path: "/metrics",
    summary: "Get the metrics of the server for Prometheus",
    scope: "read",
    concerns: "server",
    requires: "metrics",
    responses: { 200: { description: "The metrics in Prometheus' text format", types: ["text/plain"] } },
    async handle({ api }) {
      const body = await api.parts.metrics!()
      return { status: 200, body, headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" } }
    },
  }),
]
