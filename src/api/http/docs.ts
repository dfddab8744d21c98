// Serves `/openapi.json` and `/docs` without a key. Both are generated on the first request.

import { createHash } from "node:crypto"
import type { FastifyInstance } from "fastify"
import { docsPage, STYLE } from "./docs-page.ts"
import { PREFIX } from "./mount.ts"
import { openapi } from "./openapi.ts"
import type { Route } from "./route.ts"

const styleHash = createHash("sha256").update(STYLE).digest("base64")
const POLICY = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

export const installDocs = (app: FastifyInstance, routes: readonly Route[], version: string): void => {
  let cached: { json: string; html: string } | null = null
  const docs = (): { json: string; html: string } => {
    if (cached !== null) return cached
    const document = openapi(routes, version)
    cached = { json: JSON.stringify(document), html: docsPage(document) }
    return cached
  }
  for (const prefix of [PREFIX, ""]) {
    app.get(`${prefix}/openapi.json`, { exposeHeadRoute: true }, (_request, reply) =>
      reply.type("application/json; charset=utf-8").send(docs().json),
    )
    app.get(`${prefix}/docs`, { exposeHeadRoute: true }, (_request, reply) =>
      reply.type("text/html; charset=utf-8").header("content-security-policy", POLICY).send(docs().html),
    )
  }
}
