// Rejects requests that match no route, before the body is read: 405 when the path exists with another method, otherwise 404.

import type { FastifyInstance, FastifyRequest } from "fastify"
import { ApiError, notFound } from "../shared/errors.ts"

interface KnownRoute {
  segments: readonly string[]
  method: string
}

export const rejectUnknownRoutes = (app: FastifyInstance): void => {
  const known: KnownRoute[] = []
  app.addHook("onRoute", ({ url, method }) => {
    for (const each of [method].flat()) known.push({ segments: url.split("/"), method: each })
  })
  app.addHook("onRequest", (request, _reply, done) => (request.is404 ? done(unknownRoute(request, known)) : done()))
}

const unknownRoute = (request: FastifyRequest, known: readonly KnownRoute[]): ApiError => {
  const path = request.url.split("?")[0]!
  const segments = path.replace(/(?<=.)\/$/, "").split("/")
  const matches = (route: KnownRoute): boolean =>
    route.segments.length === segments.length &&
    route.segments.every((part, i) => (part.startsWith(":") ? segments[i] !== "" : part === segments[i]))
  const allow = [...new Set(known.filter(matches).map((route) => route.method))].join(", ")
  if (allow === "") return notFound(`there is no route ${request.method} ${path.slice(0, 200)}; see /docs`)
  const message = `${request.method} is not allowed here; the allowed methods are ${allow}`
  return new ApiError("METHOD_NOT_ALLOWED", message, { headers: { allow } })
}
