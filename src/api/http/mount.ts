// Puts the routes of the table on fastify: key, scope, params, query, body, handler, audit, answer, in that order, alike for all.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify"
import { type Caller, mayCall, NOBODY } from "../auth/auth.ts"
import { parseJson } from "./body.ts"
import { ApiError } from "./errors.ts"
import type { Api } from "./ports.ts"
import { type RouteResponse, type BodySpec, type Route, STREAMED, type TextBody } from "./route.ts"
import { validate, queryParser } from "./validate.ts"
import { strict } from "../../protocol/api/common.ts"

export const PREFIX = "/api/v1"

declare module "fastify" {
  interface FastifyRequest {
    caller: Caller
  }
}

export const BYTES = "application/octet-stream"

const NOTHING = strict({})
const readNothing = queryParser(NOTHING)

const fastifyPath = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1")

/** Every path that a route answers under. */
export const pathsOf = (route: Route): string[] =>
  [route.path, ...(route.aliases ?? [])].flatMap((path) => (path.startsWith("/ui/") ? [path] : [PREFIX + path, path]))

export const mount = (app: FastifyInstance, api: Api, routes: readonly Route[]): void => {
  for (const route of routes) {
    const onRequest = guard(api, route)
    const handler = answer(api, route)
    for (const path of pathsOf(route)) {
      app.route({ method: route.method, url: fastifyPath(path), exposeHeadRoute: hasHead(route), onRequest, handler })
    }
  }
}

/** Streams have no HEAD. */
const hasHead = (route: Route): boolean =>
  route.method === "GET" && Object.values(route.responses).some((spec) => spec.schema !== undefined)

/** Nothing of a request is read before its key is known to allow it. */
const guard =
  (api: Api, route: Route) =>
  async (request: FastifyRequest): Promise<void> => {
    request.caller = NOBODY
    if (route.scope === null) return route.path.startsWith("/ui/") && route.method !== "GET" ? checkSite(request) : undefined
    const found = api.auth.authenticate(request)
    const caller = found instanceof Promise ? await found : found
    if (!mayCall(caller, route.scope)) {
      throw new ApiError("FORBIDDEN", `this needs a key with the scope ${route.scope}; the key has ${caller.scopes.join(", ")}`)
    }
    if (caller.via === "cookie" && route.method !== "GET") checkOrigin(request)
    request.caller = caller
  }

/**
 * A form of another site can send cookies but neither JSON nor a header of its own. SameSite=Strict keeps its cookies away
 * already; this holds where a browser does not know that.
 */
const checkOrigin = (request: FastifyRequest): void => {
  checkSite(request)
  const type = request.headers["content-type"] ?? ""
  if (/^application\/(json|yaml)\b/.test(type) || request.headers["x-ork-request"] !== undefined) return
  throw new ApiError("FORBIDDEN", "changes with a session cookie need a JSON body or the header X-Ork-Request: 1")
}

/** What the browser itself says of where a request comes from; other clients send neither header. */
const checkSite = ({ headers, host }: FastifyRequest): void => {
  const site = headers["sec-fetch-site"]
  if (site === "same-origin" || site === "none") return
  if (site === undefined && (headers.origin === undefined || hostOf(headers.origin) === host)) return
  throw new ApiError("FORBIDDEN", "changes with a session cookie are taken from this server's own page only")
}

const hostOf = (origin: string): string | null => (URL.canParse(origin) ? new URL(origin).host : null)

const answer = (api: Api, route: Route) => {
  const params = route.params ?? NOTHING
  const query = route.query ?? NOTHING
  const readQuery = route.query === undefined ? readNothing : queryParser(route.query)
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const call = {
      params: validate(params, request.params),
      query: validate(query, readQuery(request.query)),
      body: readBody(route.body, request),
      caller: request.caller,
      request,
      reply,
      api,
    }
    const made = await route.handle(call)
    if (made === STREAMED) return reply
    if (route.audit !== undefined) {
      await audit(api, route, call, made)
      // Not every change goes through the engine, which would tell the feed.
      api.feed.wake()
    }
    if (made.headers !== undefined) reply.headers(made.headers)
    return reply.code(made.status).send(made.body)
  }
}

const readBody = (spec: BodySpec | undefined, request: FastifyRequest): unknown => {
  const text = typeof request.body === "string" ? request.body : ""
  const type = (request.headers["content-type"] ?? "").split(";")[0]!.trim().toLowerCase()
  if (spec !== undefined && "text" in spec) {
    if (!spec.text.includes(type)) {
      throw new ApiError("UNSUPPORTED_MEDIA_TYPE", `send the body as ${spec.text.join(" or ")} in the header Content-Type`)
    }
    return { text, type } satisfies TextBody
  }
  if (spec !== undefined && "bytes" in spec) {
    if (type === BYTES) return request.body
    throw new ApiError("UNSUPPORTED_MEDIA_TYPE", `send the body with the header Content-Type: ${BYTES}`)
  }
  if ((text !== "" && type !== "application/json") || (type === BYTES && request.method !== "GET")) {
    throw new ApiError("UNSUPPORTED_MEDIA_TYPE", "send the body as JSON with the header Content-Type: application/json")
  }
  const value = parseJson(text)
  if (spec === undefined) return void validate(NOTHING, value ?? {})
  return validate(spec.schema, value === undefined && spec.required !== true ? {} : value)
}

const audit = async (api: Api, route: Route, call: { params: unknown; caller: Caller }, made: RouteResponse): Promise<void> => {
  const target = made.target ?? Object.values(call.params as Record<string, string>).join("/")
  const entry = { keyId: call.caller.keyId, action: route.audit!, target, details: made.details ?? null }
  if (route.scope === "admin") await api.audit.write(entry)
  else api.audit.writeLater(entry)
}
