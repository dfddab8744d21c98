// `/openapi.json` and `/docs`: both made once, when the server is built. No key needed.

import { createHash } from "node:crypto"
import type { FastifyInstance } from "fastify"
import { docsPage, STYLE } from "./docs-page.ts"
import { ApiError } from "./errors.ts"
import { PREFIX } from "./mount.ts"
import { openapi } from "./openapi.ts"
import type { Route } from "./route.ts"

const styleHash = createHash("sha256").update(STYLE).digest("base64")
const POLICY = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`
const OTHERS = ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

export const installDocs = (app: FastifyInstance, routes: readonly Route[], version: string): void => {
  const document = openapi(routes, version)
  const text = JSON.stringify(document)
  const page = docsPage(document)
  for (const prefix of [PREFIX, ""]) {
    app.get(`${prefix}/openapi.json`, { exposeHeadRoute: true }, (_request, reply) =>
      reply.type("application/json; charset=utf-8").send(text),
    )
    app.get(`${prefix}/docs`, { exposeHeadRoute: true }, (_request, reply) =>
      reply.type("text/html; charset=utf-8").header("content-security-policy", POLICY).send(page),
    )
    for (const url of [`${prefix}/openapi.json`, `${prefix}/docs`]) {
      app.route({
        method: OTHERS,
        url,
        onRequest: (request, _reply, done) =>
          done(
            new ApiError("METHOD_NOT_ALLOWED", `${request.method} is not possible here; there is GET`, {
              headers: { allow: "GET, HEAD" },
            }),
          ),
        handler: () => undefined,
      })
    }
  }
}
