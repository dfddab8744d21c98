// Builds the HTTP server: fastify around the table of routes. `ork serve` calls `buildServer`, `listen` and `close`.

import Fastify, { type FastifyBaseLogger, type FastifyInstance, type FastifyReply, LogController } from "fastify"
import type { IncomingMessage } from "node:http"
import type { Socket } from "node:net"
import { ApiKeys } from "../auth/api-keys.ts"
import { AuditLog } from "../auth/audit-log.ts"
import { Authenticator } from "../auth/authenticator.ts"
import { BODY_LIMIT } from "./body.ts"
import { installDocs } from "./docs.ts"
import { ApiError, internal, toApiError } from "./errors.ts"
import { EventFeed } from "../streams/event-feed.ts"
import { BYTES, mount } from "./mount.ts"
import { installWebUi } from "./web-ui.ts"
import type { Api, ServerOptions } from "./ports.ts"
import { routesFor } from "../routes/table.ts"
import { SignIns } from "../auth/sign-ins.ts"
import { rejectUnknownRoutes } from "./unknown-route.ts"
import { HEARTBEAT_MS, STREAM_BUFFER, Streams } from "../streams/streams.ts"

const MIN_KEY = 16
const REDACTED = ["key", "apiKey", "headers.authorization", "headers.cookie", 'headers["x-api-key"]']
const MAX_PARAM = 700
/** Longer than proxies keep a connection, so that they, not we, end it. */
const KEEP_ALIVE_MS = 72_000
/** A request that takes longer to arrive is given up. */
const REQUEST_MS = 60_000

const unreadable = JSON.stringify(new ApiError("VALIDATION_ERROR", "this is not HTTP").body())
/** What cannot be parsed as HTTP at all has no request to answer. */
const UNREADABLE = `HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: ${unreadable.length}\r\nConnection: close\r\n\r\n${unreadable}`

export interface ApiServer {
  app: FastifyInstance
  /** A token for `/ui/sign-in?token=…` as the server's own key. */
  signInToken(): string
}

export const buildServer = (options: ServerOptions): ApiServer => {
  if (options.config.apiKey.length < MIN_KEY) {
    throw new Error(`ORK_API_KEY has fewer than ${MIN_KEY} characters: choose a longer one`)
  }
  const api = makeApi(options)
  const log = api.log.child({ part: "api" }, { redact: REDACTED })
  const told = (error: unknown, requestId: string): ApiError => {
    const known = toApiError(error, BODY_LIMIT)
    if (known === null) log.error({ err: error, request: requestId }, "a request failed")
    return known ?? internal(requestId)
  }
  const logger: FastifyBaseLogger = log
  const app = Fastify({
    loggerInstance: logger,
    // One logger for all requests: a child for each costs more than the request's own work.
    childLoggerFactory: (logger) => logger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT,
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: REQUEST_MS,
    trustProxy: options.config.trustProxy ?? false,
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: MAX_PARAM, ignoreTrailingSlash: true },
    clientErrorHandler: (_error, socket) => {
      if (socket.writable) socket.end(UNREADABLE)
    },
    frameworkErrors: (error, request, reply) => void send(reply as FastifyReply, told(error, request.id)),
  })
  app.removeAllContentTypeParsers()
  for (const type of ["application/json", "application/yaml", "text/plain"]) {
    app.addContentTypeParser(type, { parseAs: "string" }, (_request, body, done) => done(null, body))
  }
  app.addContentTypeParser(BYTES, (_request, body, done) => done(null, body))
  app.decorateRequest("caller")
  app.setErrorHandler((error, request, reply) => send(reply, told(error, request.id)))
  rejectUnknownRoutes(app)
  app.addHook("onSend", (_request, reply, _payload, done) => {
    reply.header("x-content-type-options", "nosniff")
    if (!reply.hasHeader("cache-control")) reply.header("cache-control", "no-store")
    done()
  })
  app.addHook("onResponse", (request, reply, done) => {
    if (log.isLevelEnabled("debug"))
      log.debug(
        { method: request.method, route: request.routeOptions.url, status: reply.statusCode, ms: reply.elapsedTime },
        "request",
      )
    done()
  })
  const routes = routesFor(api.parts)
  mount(app, api, routes)
  installDocs(app, routes, options.config.version)
  if (options.config.webUiDir !== undefined) installWebUi(app, options.config.webUiDir)
  stopWith(app, api, options)
  return { app, signInToken: () => api.signIns.newToken() }
}

const send = (reply: FastifyReply, error: ApiError): FastifyReply =>
  reply.code(error.status).headers(error.headers).send(error.body())

const makeApi = ({ explain, metrics, serverStats, workers, push, services, ...always }: ServerOptions): Api => {
  const { store, config, log, clock, random } = always
  const signIns = new SignIns(config.apiKey, () => clock.now(), random)
  const auth = new Authenticator(store, clock, signIns, config)
  return {
    ...services,
    ...always,
    parts: {
      ...(explain !== undefined && { explain }),
      ...(metrics !== undefined && { metrics }),
      ...(serverStats !== undefined && { serverStats }),
      ...(workers !== undefined && { workers }),
      ...(push !== undefined && { push }),
    },
    startedAt: clock.now(),
    signIns,
    auth,
    keys: new ApiKeys({ store, clock, random, changed: () => auth.clearCache() }),
    audit: new AuditLog(store, clock, (count) => log.error({ count }, "audit entries were lost: the store is away")),
    feed: new EventFeed(store, clock, (error) =>
      log.warn({ error: String(error) }, "could not read the event log; trying again"),
    ),
    streams: new Streams(clock, {
      heartbeatMs: config.heartbeatMs ?? HEARTBEAT_MS,
      bufferBytes: config.streamBuffer ?? STREAM_BUFFER,
    }),
  }
}

const stopWith = (app: FastifyInstance, api: Api, { engine, store }: ServerOptions): void => {
  const unsubscribe = engine.onEvent(() => api.feed.wake())
  store.onWake(() => api.feed.wake())
  // Connections that have asked for nothing yet. To Node they are not idle, and closing would wait for them for ever.
  const silent = new Set<Socket>()
  app.server.on("connection", (socket: Socket) => {
    silent.add(socket)
    socket.once("close", () => silent.delete(socket))
  })
  app.server.on("request", ({ socket }: IncomingMessage) => void silent.delete(socket))
  app.addHook("preClose", (done) => {
    unsubscribe()
    api.streams.endAll()
    for (const socket of silent) socket.destroy()
    done()
  })
  app.addHook("onClose", async () => {
    await api.audit.close()
    await api.auth.close()
  })
}

/** Resolves with the address that the server answers at. */
export const listen = (server: ApiServer, where: { host: string; port: number }): Promise<string> => server.app.listen(where)

/** Ends the streams, answers what is under way, writes what is left of the audit log. */
export const close = (server: ApiServer): Promise<void> => server.app.close()
