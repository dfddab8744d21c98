// `/openapi.json` and `/docs`: both made once, when somebody first asks. No key needed.

import { createHash } from "node:crypto"
import type { FastifyInstance } from "fastify"
import { docsPage, STYLE } from "./docs-page.ts"
import { PREFIX } from "./mount.ts"
import { openapi } from "./openapi.ts"
import type { Route } from "./route.ts"

const styleHash = createHash("sha256").update(STYLE).digest("base64")
const POLICY = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

export const installDocs = (app: FastifyInstance, routes: readonly Route[], version: string): void => {
  let made: { text: string; page: string } | null = null
  const docs = (): { text: string; page: string } => {
    if (made !== null) return made
    const document = openapi(routes, version)
    made = { text: JSON.stringify(document), page: docsPage(document) }
    return made
  }
  for (const prefix of [PREFIX, ""]) {
    app.get(`${prefix}/openapi.json`, { exposeHeadRoute: true }, (_request, reply) =>
      reply.type("application/json; charset=utf-8").send(docs().text),
    )
    app.get(`${prefix}/docs`, { exposeHeadRoute: true }, (_request, reply) =>
      reply.type("text/html; charset=utf-8").header("content-security-policy", POLICY).send(docs().page),
    )
  }
}
