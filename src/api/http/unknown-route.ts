// What has no route: 405 where the path is known with another method, else 404. Looked up only then, before the body is read.

import type { FastifyInstance, FastifyRequest } from "fastify"
import { ApiError, notFound } from "./errors.ts"

interface Known {
  segments: readonly string[]
  method: string
}

export const rejectUnknownRoutes = (app: FastifyInstance): void => {
  const known: Known[] = []
  app.addHook("onRoute", ({ url, method }) => {
    for (const each of [method].flat()) known.push({ segments: url.split("/"), method: each })
  })
  app.addHook("onRequest", (request, _reply, done) => (request.is404 ? done(unknown(request, known)) : done()))
}

const unknown = (request: FastifyRequest, known: readonly Known[]): ApiError => {
  const path = request.url.split("?")[0]!
  const segments = path.replace(/(?<=.)\/$/, "").split("/")
  const fits = (each: Known): boolean =>
    each.segments.length === segments.length &&
    each.segments.every((part, i) => (part.startsWith(":") ? segments[i] !== "" : part === segments[i]))
  const allow = [...new Set(known.filter(fits).map((each) => each.method))].join(", ")
  if (allow === "") return notFound(`there is no ${request.method} ${path.slice(0, 200)}; see /docs`)
  return new ApiError("METHOD_NOT_ALLOWED", `${request.method} is not possible here; there is ${allow}`, { headers: { allow } })
}
