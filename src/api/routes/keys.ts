// API keys: shown once, kept as hashes.

import { createdKey, keyParams, keys, newKey } from "../../protocol/api/service.ts"
import { uuidv7 } from "../../core/model/ids.ts"
import { hashKey, KEY_PREFIX } from "../auth/auth.ts"
import { notFound } from "../http/errors.ts"
import { route } from "../http/route.ts"
import { keyShape } from "../views/shapes.ts"

const TAG = "keys"

export const keyRoutes = [
  route({
    method: "GET",
    path: "/keys",
    tag: TAG,
    summary: "API keys, without the keys themselves",
    scope: "admin",
    answers: { 200: { about: "The keys", schema: keys } },
    async handle({ api }) {
      return { status: 200, body: { items: (await api.store.listKeys()).map(keyShape) } }
    },
  }),
  route({
    method: "POST",
    path: "/keys",
    tag: TAG,
    summary: "Makes a key; this answer is the only one that shows it",
    scope: "admin",
    body: { schema: newKey, required: true },
    answers: { 201: { about: "The key", schema: createdKey } },
    audit: "key.create",
    async handle({ body, api }) {
      const { random } = api
      const key = KEY_PREFIX + random.hex128() + random.hex128()
      const id = uuidv7(api.clock.now(), random.hex128())
      const made = await api.store.createKey({ id, name: body.name, scopes: [...new Set(body.scopes)], hash: hashKey(key) })
      api.auth.forget()
      return { status: 201, body: { ...keyShape(made), key }, target: id, details: made.scopes.join(" ") }
    },
  }),
  route({
    method: "DELETE",
    path: "/keys/{id}",
    tag: TAG,
    summary: "Removes a key: whoever has it is out",
    scope: "admin",
    params: keyParams,
    answers: { 204: { about: "Removed" } },
    audit: "key.remove",
    async handle({ params, api }) {
      const removed = await api.store.removeKey(params.id)
      api.auth.forget()
      if (!removed) throw notFound(`there is no key ${params.id}`)
      return { status: 204 }
    },
  }),
]
