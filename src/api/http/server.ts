// Builds the HTTP server: fastify around the table of routes. `ork serve` calls `buildServer`, `listen` and `close`.

import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyHttpOptions,
  LogController,
} from "fastify"
import type { IncomingMessage, Server } from "node:http"
import type { Socket } from "node:net"
import type { Logger } from "pino"
import { ApiKeys } from "../auth/api-keys.ts"
import { AuditLog } from "../auth/audit-log.ts"
import { Authenticator, CACHED_MS } from "../auth/authenticator.ts"
import { BODY_LIMIT } from "./body.ts"
import { installDocs } from "./docs.ts"
import { ApiError, internal, toApiError } from "../shared/errors.ts"
import { EventFeed } from "../feed/event-feed.ts"
import { BYTES, mount } from "./mount.ts"
import { installWebUi } from "./web-ui.ts"
import { checkHosts } from "./host-check.ts"
import type { Api, ApiConfig, ServerOptions } from "./ports.ts"
import { routesFor } from "../routes/table.ts"
import { Oidc } from "../auth/oidc.ts"
import { SignIns } from "../auth/sign-ins.ts"
import { rejectUnknownRoutes } from "./unknown-route.ts"
import { HEARTBEAT_MS, STREAM_BUFFER, STREAMS_PER_CALLER, Streams } from "../feed/streams.ts"

const MIN_KEY_LENGTH = 16
const REDACTED = ["key", "apiKey", "headers.authorization", "headers.cookie", 'headers["x-api-key"]']
const MAX_PARAM_LENGTH = 700
/** Longer than the timeout of common proxies, so that the proxy closes an idle connection and not the server. */
const KEEP_ALIVE_MS = 72_000
/** Time in which a text body must arrive completely, and a part of an upload: a large one takes longer altogether. */
const BODY_MS = 60_000
/** That many of these times an upload may take. */
const MAX_UPLOAD_TIMES = 10
/** Time in which the headers must arrive; also closes a connection that sends nothing. */
const HEADERS_MS = 20_000
/** Part of that time after which connections are checked again. */
const CHECKS_PER_TIMEOUT = 4

const notHttp = JSON.stringify(new ApiError("VALIDATION_ERROR", "this is not HTTP").body())
/** Raw response to data that is not HTTP and therefore has no request to reply to. */
const NOT_HTTP_RESPONSE = `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: ${notHttp.length}\r\nConnection: close\r\n\r\n${notHttp}`

export interface ApiServer {
  app: FastifyInstance
  /** Creates a token for `/ui/sign-in?token=…`. Its session has the rights of the server's own key. */
  signInToken(): string
}

export const buildServer = (options: ServerOptions): ApiServer => {
  const { config } = options
  if (config.apiKey.length < MIN_KEY_LENGTH) {
    throw new Error(`ORK_API_KEY has fewer than ${MIN_KEY_LENGTH} characters; choose a longer one`)
  }
  const api = buildApi(options)
  const log = api.log.child({ part: "api" }, { redact: REDACTED })
  const app = buildFastify(log, config)
  limitBodies(app, config.bodyMs ?? BODY_MS)
  acceptBodies(app)
  checkHosts(app, [...(config.hosts ?? []), ...(config.url === undefined ? [] : [new URL(config.url).hostname])])
  rejectUnknownRoutes(app)
  setDefaultHeaders(app)
  logResponses(app, log)
  const routes = routesFor(api.parts)
  mount(app, api, routes)
  installDocs(app, routes, config.version)
  if (config.webUiDir !== undefined) installWebUi(app, config.webUiDir)
  wakeFeed(app, api, options)
  stopOnClose(app, api)
  return { app, signInToken: () => api.signIns.newToken(api.auth.ownSubject) }
}

const buildApi = (options: ServerOptions): Api => {
  const { engine, store, objects, config, log, clock, random, secret, services } = options
  const signIns = new SignIns({ store, now: () => clock.now(), random })
  const auth = new Authenticator(store, clock, signIns, config)
  return {
    ...services,
    engine,
    store,
    objects,
    config,
    log,
    clock,
    random,
    secret,
    parts: options,
    startedAt: clock.now(),
    signIns,
    oidc: config.oidc === undefined ? null : new Oidc(config.oidc, secret, options.oidcFetch),
    auth,
    keys: new ApiKeys({ store, clock, random, changed: () => auth.clearCache() }),
    audit: new AuditLog(store, clock, (count) => log.error({ count }, "lost audit entries: the store is unavailable")),
    feed: new EventFeed(store, clock, (error) =>
      log.warn({ error: String(error) }, "failed to read the event log; trying again"),
    ),
    streams: new Streams(clock, {
      heartbeatMs: config.heartbeatMs ?? HEARTBEAT_MS,
      bufferBytes: config.streamBuffer ?? STREAM_BUFFER,
      perCaller: config.streamsPerCaller ?? STREAMS_PER_CALLER,
      recheckMs: CACHED_MS,
      isStillValid: (request) => auth.isStillValid(request),
    }),
  }
}

const buildFastify = (log: Logger, { trustProxy = false, tls, headersMs = HEADERS_MS }: ApiConfig): FastifyInstance => {
  const sendError = (error: unknown, requestId: string, reply: FastifyReply): FastifyReply => {
    const known = toApiError(error, reply.request.routeOptions.bodyLimit ?? BODY_LIMIT)
    if (known === null) log.error({ err: error, request: requestId }, "a request failed")
    const shown = known ?? internal(requestId)
    return reply.code(shown.status).headers(shown.headers).send(shown.body())
  }
  const loggerInstance: FastifyBaseLogger = log
  const timeouts = { headersTimeout: headersMs, connectionsCheckingInterval: headersMs / CHECKS_PER_TIMEOUT }
  const options: FastifyHttpOptions<Server> = {
    http: timeouts,
    loggerInstance,
    // One logger for all requests: a child logger per request would cost more than the request itself.
    childLoggerFactory: (logger) => logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Its timeout would be the same for texts and uploads: see `limitBodies`.
    requestTimeout: 0,
    trustProxy,
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH, ignoreTrailingSlash: true },
    clientErrorHandler: (_error, socket) => {
      if (socket.writable) socket.end(NOT_HTTP_RESPONSE)
    },
    frameworkErrors: (error, request, reply) => void sendError(error, request.id, reply),
  }
  // Handlers do not depend on the kind of server.
  const app =
    tls === undefined
      ? Fastify(options)
      : (Fastify({ ...options, http: undefined, https: { ...tls, ...timeouts } } as object) as FastifyInstance)
  app.setErrorHandler((error, request, reply) => sendError(error, request.id, reply))
  return app
}

/** Closes the connection of a body that does not arrive in time. */
const limitBodies = (app: FastifyInstance, bodyMs: number): void => {
  app.addHook("onRequest", ({ raw, headers }, _reply, done) => {
    const hasBody = headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0"
    if (hasBody) limitBody(raw, headers["content-type"] === BYTES ? MAX_UPLOAD_TIMES : 1, bodyMs)
    done()
  })
}

/** `times`: how often a part of the body may take `ms`. */
const limitBody = (request: IncomingMessage, times: number, ms: number): void => {
  const { socket } = request
  let received = -1
  let left = times
  const check = (): void => {
    if (request.complete) return
    if (left === 0 || socket.bytesRead === received) return void socket.destroy()
    left -= 1
    received = socket.bytesRead
    timer = setTimeout(check, ms).unref()
  }
  let timer: NodeJS.Timeout | undefined
  check()
  request.once("close", () => clearTimeout(timer))
}

/** Hands bodies to `mount` unparsed: text as a string, bytes as a stream. */
const acceptBodies = (app: FastifyInstance): void => {
  app.removeAllContentTypeParsers()
  for (const type of ["application/json", "application/yaml", "text/plain"]) {
    app.addContentTypeParser(type, { parseAs: "string" }, (_request, body, done) => done(null, body))
  }
  app.addContentTypeParser(BYTES, (_request, body, done) => done(null, body))
  app.decorateRequest("caller")
}

const setDefaultHeaders = (app: FastifyInstance): void => {
  app.addHook("onSend", (_request, reply, _payload, done) => {
    reply.header("x-content-type-options", "nosniff")
    if (!reply.hasHeader("cache-control")) reply.header("cache-control", "no-store")
    done()
  })
}

const logResponses = (app: FastifyInstance, log: Logger): void => {
  app.addHook("onResponse", (request, reply, done) => {
    if (log.isLevelEnabled("debug")) {
      const { method, routeOptions } = request
      log.debug({ method, route: routeOptions.url, status: reply.statusCode, ms: reply.elapsedTime }, "request")
    }
    done()
  })
}

/** Wakes the event feed after commits of this process (engine) and of other processes (store). */
const wakeFeed = (app: FastifyInstance, api: Api, { engine, store }: ServerOptions): void => {
  const unsubscribe = engine.onEvent(() => api.feed.wake())
  store.onWake(() => api.feed.wake())
  app.addHook("preClose", (done) => {
    unsubscribe()
    done()
  })
}

const stopOnClose = (app: FastifyInstance, api: Api): void => {
  // Connections without a request so far. Node does not count them as idle, so that closing would wait for them for ever.
  const unused = new Set<Socket>()
  app.server.on("connection", (socket: Socket) => {
    unused.add(socket)
    socket.once("close", () => unused.delete(socket))
  })
  app.server.on("request", ({ socket }: IncomingMessage) => void unused.delete(socket))
  app.addHook("preClose", (done) => {
    api.streams.endAll()
    for (const socket of unused) socket.destroy()
    done()
  })
  app.addHook("onClose", async () => {
    await api.audit.close()
    await api.auth.close()
  })
}

/** Resolves with the address that the server listens at. */
export const listen = (server: ApiServer, where: { host: string; port: number }): Promise<string> => server.app.listen(where)

/** Ends the streams, finishes the requests in flight and writes the rest of the audit log. */
export const close = (server: ApiServer): Promise<void> => server.app.close()
