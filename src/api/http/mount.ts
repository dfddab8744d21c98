// Mounts the routes of the table on fastify. Every request takes the same steps: authenticate, check the scope, read the body, validate
// params, query and body, call the handler, write the audit log, send the response.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify"
import { ANONYMOUS, type Caller, may, mayCall, scopesFor } from "../auth/auth.ts"
import { checkLimits } from "./workflow-limits.ts"
import { BODY_LIMIT, OPEN_BODY_LIMIT, parseJson } from "./body.ts"
import { withAudit } from "../../store/contract/audit-scope.ts"
import { ApiError } from "../shared/errors.ts"
import type { Api } from "./ports.ts"
import { type BodySpec, type Call, type Route, type RouteResponse, STREAMED, type TextBody } from "./route.ts"
import { queryParser, validate } from "./validate.ts"
import { strictObject } from "../../protocol/api/common.ts"

export const PREFIX = "/api/v1"

declare module "fastify" {
  interface FastifyRequest {
    caller: Caller
  }
}

export const BYTES = "application/octet-stream"

/** Problems that a caller without a key gets. */
const MAX_OPEN_PROBLEMS = 20

/** Errors that the audit log records. */
const REFUSALS: ReadonlySet<string> = new Set(["UNAUTHORIZED", "FORBIDDEN", "RATE_LIMITED"])

/** Characters of a target, which an index holds. Longer ones name nothing that exists. */
const MAX_TARGET = 500

const EMPTY = strictObject({})
const parseEmptyQuery = queryParser(EMPTY)

const fastifyPath = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1")

/** Returns every path of a route: below /api/v1 and at the root. Paths below /ui exist only once. */
export const pathsOf = (route: Route): string[] =>
  [route.path, ...(route.aliases ?? [])].flatMap((path) => (path.startsWith("/ui/") ? [path] : [PREFIX + path, path]))

export const mount = (app: FastifyInstance, api: Api, routes: readonly Route[]): void => {
  for (const route of routes) {
    const onRequest = authorize(api, route)
    const handler = handle(api, route)
    const bodyLimit = route.bodyLimit ?? (route.scope === null ? OPEN_BODY_LIMIT : BODY_LIMIT)
    for (const path of pathsOf(route)) {
      app.route({
        method: route.method,
        url: fastifyPath(path),
        exposeHeadRoute: hasHead(route),
        bodyLimit,
        onRequest,
        handler,
      })
    }
  }
}

/** Streams have no HEAD. */
const hasHead = (route: Route): boolean =>
  route.method === "GET" && Object.values(route.responses).some((spec) => spec.schema !== undefined)

/** Authenticates the caller and checks the scope before anything else of the request is read. */
const authorize =
  (api: Api, route: Route) =>
  async (request: FastifyRequest): Promise<void> => {
    request.caller = ANONYMOUS
    try {
      await admit(api, route, request)
      checkEncoding(request)
    } catch (error) {
      recordRefusal(api, route, request, error)
      throw error
    }
  }

/** Rejects a compressed body, which would be read as text. */
const checkEncoding = ({ method, headers }: FastifyRequest): void => {
  const encoding = headers["content-encoding"]?.trim().toLowerCase() ?? ""
  if (method === "GET" || encoding === "" || encoding === "identity") return
  const message = `the Content-Encoding ${encoding.slice(0, 100)} is not supported; send the body without one, or with identity`
  throw new ApiError("UNSUPPORTED_MEDIA_TYPE", message, { headers: { "accept-encoding": "identity" } })
}

const admit = async (api: Api, route: Route, request: FastifyRequest): Promise<void> => {
  if (route.scope === null) {
    if (route.path.startsWith("/ui/") && route.method !== "GET") checkSite(request)
    await route.admit?.({ params: validate(route.params ?? EMPTY, request.params, MAX_OPEN_PROBLEMS), request, api })
    return
  }
  const found = api.auth.authenticate(request)
  const caller = found instanceof Promise ? await found : found
  request.caller = caller
  if (!mayCall(caller, route.scope)) {
    const scopes = scopesFor(caller).join(", ")
    throw new ApiError("FORBIDDEN", `a key with the scope ${route.scope} is required; this key has the scope ${scopes}`)
  }
  if (caller.via === "cookie" && route.method !== "GET") checkOrigin(request)
  if (may(caller, route.scope, null)) return
  await checkLimits(api, route, caller, () => validate(route.params ?? EMPTY, request.params) as { [name: string]: string })
}

/**
 * Rejects cross-site changes that were sent with a session cookie. A form of another site can send cookies, but neither JSON nor a
 * custom header. SameSite=Strict already withholds the cookie; this check covers browsers that do not support it.
 */
const checkOrigin = (request: FastifyRequest): void => {
  checkSite(request)
  const type = request.headers["content-type"] ?? ""
  if (/^application\/(json|yaml)\b/.test(type) || request.headers["x-ork-request"] !== undefined) return
  throw new ApiError("FORBIDDEN", "a change with a session cookie requires a JSON body or the header X-Ork-Request: 1")
}

/** Rejects requests that a browser sent from another site. Other clients send neither header. */
const checkSite = ({ headers, host }: FastifyRequest): void => {
  const site = headers["sec-fetch-site"]
  if (site === "same-origin" || site === "none") return
  if (site === undefined && (headers.origin === undefined || hostOf(headers.origin) === host)) return
  throw new ApiError("FORBIDDEN", "a change with a session cookie is accepted only from the web UI of this server")
}

const hostOf = (origin: string): string | null => (URL.canParse(origin) ? new URL(origin).host : null)

const handle = (api: Api, route: Route) => {
  const params = route.params ?? EMPTY
  const query = route.query ?? EMPTY
  const maxProblems = route.scope === null ? MAX_OPEN_PROBLEMS : undefined
  const parseQuery = route.query === undefined ? parseEmptyQuery : queryParser(route.query)
  const handler = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const call: AnyCall = {
      params: validate(params, request.params, maxProblems),
      query: validate(query, parseQuery(request.query), maxProblems),
      body: readBody(route.body, request, maxProblems),
      caller: request.caller,
      request,
      reply,
      api,
    }
    const response = await (route.audit === undefined ? route.handle(call) : audited(api, route, call))
    if (response === STREAMED) return reply
    if (response.headers !== undefined) reply.headers(response.headers)
    return reply.code(response.status).send(response.body)
  }
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    try {
      return await handler(request, reply)
    } catch (error) {
      recordRefusal(api, route, request, error)
      throw error
    }
  }
}

const readBody = (spec: BodySpec | undefined, request: FastifyRequest, maxProblems?: number): unknown => {
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
  const value = parseJson(text, spec?.anyNumbers)
  if (spec === undefined) return void validate(EMPTY, value ?? {}, maxProblems)
  return validate(spec.schema, value === undefined && spec.required !== true ? {} : value, maxProblems)
}

type AnyCall = Call<unknown, unknown, unknown>

/** Calls a handler so that its change is committed together with an entry of the audit log, or the entry right after it. */
const audited = async (api: Api, route: Route, call: AnyCall): Promise<RouteResponse | typeof STREAMED> => {
  const entry = { ...entryOf(route.audit!, call.request), result: "ok", details: null, request: api.random.hex128() }
  const { result: response, left } = await withAudit(entry, () => route.handle(call))
  if (left !== null && (response === STREAMED || response.audit !== false)) await api.audit.write(left)
  // The engine wakes the feed only for events of its own loop.
  api.feed.wake()
  return response
}

const entryOf = (action: string, { caller, ip, params }: FastifyRequest) => ({
  keyId: caller.key?.id ?? null,
  actor: caller.name || null,
  subject: caller.user ?? null,
  address: ip,
  action,
  target: Object.values(params as Record<string, string>)
    .join("/")
    .slice(0, MAX_TARGET)
    .toWellFormed(),
})

/** Records a request that was refused because of its credential or its rights. */
const recordRefusal = (api: Api, route: Route, request: FastifyRequest, error: unknown): void => {
  if (!(error instanceof ApiError) || !REFUSALS.has(error.code)) return
  const { "x-api-key": key, authorization, cookie } = request.headers
  if (route.scope !== null && key === undefined && authorization === undefined && cookie === undefined) return
  const action = route.audit ?? `${route.method} ${route.path}`
  const target = route.path.startsWith("/callbacks/") ? { target: "callback" } : {}
  api.audit.refused({ ...entryOf(action, request), ...target, result: error.code, details: error.message, request: null })
}
