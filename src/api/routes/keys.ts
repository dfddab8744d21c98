// API keys. The store holds only their hashes.

import { createdKey, keyParams, keys, newKey } from "../../protocol/api/service.ts"
import { notFound } from "../http/errors.ts"
import { route } from "../http/route.ts"
import { keyShape } from "../views/shapes.ts"

const TAG = "keys"

export const keyRoutes = [
  route({
    method: "GET",
    path: "/keys",
    tag: TAG,
    summary: "List the API keys by name and scope, without the keys themselves",
    scope: "admin",
    responses: { 200: { description: "The keys", schema: keys } },
    async handle({ api }) {
      return { status: 200, body: { items: (await api.store.listKeys()).map(keyShape) } }
    },
  }),
  route({
    method: "POST",
    path: "/keys",
    tag: TAG,
    summary: "Create a key; only this response shows it",
    scope: "admin",
    body: { schema: newKey, required: true },
    responses: { 201: { description: "The key", schema: createdKey } },
    audit: "key.create",
    async handle({ body, api }) {
      const { row, key } = await api.keys.create(body.name, body.scopes)
      return { status: 201, body: { ...keyShape(row), key }, target: row.id, details: row.scopes.join(" ") }
    },
  }),
  route({
    method: "DELETE",
    path: "/keys/{id}",
    tag: TAG,
    summary: "Remove a key, which ends its sessions",
    scope: "admin",
    params: keyParams,
    responses: { 204: { description: "Removed" } },
    audit: "key.remove",
    async handle({ params, api }) {
      if (!(await api.keys.remove(params.id))) throw notFound(`there is no key ${params.id}`)
      return { status: 204 }
    },
  }),
]
