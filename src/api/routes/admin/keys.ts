// API keys. The store holds only their hashes.

import { parseDuration } from "../../../core/values/quantities.ts"
import { describeLimits } from "../../../core/settings/workflow-limits.ts"
import { createdKey, keyParams, keyRotation, keys, newKey } from "../../../protocol/api/service.ts"
import { notFound } from "../../shared/errors.ts"
import type { KeyRow } from "../../../store/contract/keys.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { route } from "../../http/route.ts"
import { keyShape } from "../../views/service-json.ts"

export const keyRoutes = [
  route({
    method: "GET",
    path: "/keys",
    summary: "List the API keys by name and scope, without the keys themselves",
    scope: "admin",
    concerns: "server",
    responses: { 200: { description: "The keys", schema: keys } },
    async handle({ api }) {
      return { status: 200, body: { items: (await api.store.listKeys()).map(keyShape) } }
    },
  }),
  route({
    method: "POST",
    path: "/keys",
    summary: "Create a key; only this response shows it",
    scope: "admin",
    concerns: "server",
    body: { schema: newKey, required: true },
    responses: { 201: { description: "The key", schema: createdKey } },
    audit: "key.create",
    async handle({ body: { name, scopes, queues = null, workflows = null, tags = null, expires_in: expires }, caller, api }) {
      const limits = workflows === null && tags === null ? null : { workflows, tags }
      const details = scopes.join(" ") + (limits === null ? "" : ` for ${describeLimits(limits)}`)
      describeAction({ target: (row: KeyRow) => row.id, details })
      const expiresInMs = expires === undefined ? null : parseDuration(expires)
      const { row, key } = await api.keys.create({ name, scopes, queues, limits, expiresInMs, createdBy: caller.name })
      return { status: 201, body: { ...keyShape(row), key } }
    },
  }),
  route({
    method: "POST",
    path: "/keys/{id}/rotate",
    summary:
      "Replace the secret of a key, which ends its sessions and evicts its workers after the overlap; only this response shows the new one",
    scope: "admin",
    concerns: "server",
    params: keyParams,
    body: { schema: keyRotation },
    responses: { 200: { description: "The key", schema: createdKey } },
    audit: "key.rotate",
    async handle({ params, body, api }) {
      const rotated = await api.keys.rotate(params.id, parseDuration(body.overlap)!)
      if (rotated === null) throw notFound(`there is no key ${params.id}`)
      await api.parts.workers?.reap()
      return { status: 200, body: { ...keyShape(rotated.row), key: rotated.key } }
    },
  }),
  route({
    method: "DELETE",
    path: "/keys/{id}",
    summary: "Remove a key, which ends its sessions and streams and evicts its workers",
    scope: "admin",
    concerns: "server",
    params: keyParams,
    responses: { 204: { description: "Removed" } },
    audit: "key.remove",
    async handle({ params, api }) {
      if (!(await api.keys.remove(params.id))) throw notFound(`there is no key ${params.id}`)
      // The attempts of its workers go to others.
      await api.parts.workers?.reap()
      return { status: 204 }
    },
  }),
]
