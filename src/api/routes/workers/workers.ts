// Lease holders (servers, workers, `ork run`), and the worker protocol. A worker authenticates with the token that it got when it
// registered, and may act only for itself.

import { Readable } from "node:stream"
import type { AttemptId, HolderId } from "../../../core/model/ids.ts"
import { workers } from "../../../protocol/api/service.ts"
import * as wire from "../../../protocol/api/workers.ts"
import { decodeFrames } from "../../../protocol/wire/log-frames.ts"
import { type FencedToken, OutputTooLarge } from "../../../engine/workers/attempt-files.ts"
import { type Caller, may } from "../../auth/auth.ts"
import { collectBody } from "../../http/body.ts"
import { ApiError, conflict, invalid, notFound } from "../../shared/errors.ts"
import type { LeaseHolderRow } from "../../../store/contract/store.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { type Call, route } from "../../http/route.ts"
import { pushWorkerShape, workerShape } from "../../views/service-json.ts"

const WORK = "worker protocol"

/** Common fields of the routes that a worker calls for itself. They return 409 once the worker is evicted. */
const OF_WORKER = {
  method: "POST",
  tag: WORK,
  scope: "worker",
  concerns: "server",
  params: wire.workerParams,
  errors: [409],
  requires: "workers",
} as const

/** Returns the id of the calling worker. Throws FORBIDDEN when the caller is not the worker of the path. */
const callingWorker = async ({ params, caller, api }: Call<{ id: string }, unknown, unknown>): Promise<HolderId> => {
  const id = params.id as HolderId
  if (caller.worker === id) return id
  if (caller.worker === undefined && (await api.store.workerToken(id)) === null) throw notFound(`there is no worker ${id}`)
  throw new ApiError("FORBIDDEN", "only the worker itself may call this, with the token that it got when it registered")
}

/** Throws FORBIDDEN when the caller may not register a worker for these queues. */
const checkRegistration = ({ via, worker, queues }: Caller, wanted: readonly string[]): void => {
  if (via !== "key" || worker !== undefined) {
    throw new ApiError("FORBIDDEN", "only an API key may register a worker; a worker's token and a session may not")
  }
  const others = queues === null ? [] : wanted.filter((queue) => !queues.includes(queue))
  if (others.length === 0) return
  throw new ApiError("FORBIDDEN", `this key may serve the queues ${queues!.join(", ")}, but not ${others.join(", ")}`)
}

const fenceOf = (call: Call<unknown, { row: number; attempt_id: string }, unknown>): FencedToken => {
  const token = call.request.headers[wire.ATTEMPT_TOKEN_HEADER]
  return {
    row: call.query.row,
    attemptId: call.query.attempt_id as AttemptId,
    token: typeof token === "string" ? token : "",
  }
}

const fenceLost = (): ApiError => conflict("the attempt is no longer this worker's, or its token is wrong")

/** Returns a signal that is aborted when the client has disconnected. */
const disconnected = ({ reply }: Pick<Call<unknown, unknown, unknown>, "reply">): AbortSignal => {
  const controller = new AbortController()
  reply.raw.once("close", () => controller.abort())
  return controller.signal
}

const UPSTREAM = { ...OF_WORKER, method: "GET" } as const

const OCTETS = "application/octet-stream"

/** Returns the size of what a worker has sent. */
const received = async (stored: Promise<number | null>): Promise<number> => {
  const bytes = await stored.catch((error: unknown) => {
    throw error instanceof OutputTooLarge ? new ApiError("TOO_LARGE", error.message) : error
  })
  if (bytes === null) throw fenceLost()
  return bytes
}

const sent = (found: AsyncIterable<Uint8Array> | null) => {
  if (found === null) throw fenceLost()
  return { status: 200, body: Readable.from(found), headers: { "content-type": OCTETS } }
}

export const workerRoutes = [
  route({
    method: "GET",
    path: "/workers",
    summary: "List the processes that run tasks",
    scope: "read",
    concerns: "server",
    responses: { 200: { description: "The processes", schema: workers } },
    async handle({ api }) {
      const now = api.clock.now()
      const holders = await api.store.listHolders()
      const hasLease = ({ kind, leaseUntil }: LeaseHolderRow): boolean => kind !== "worker" || Date.parse(leaseUntil) >= now
      const { isHolderAlive = hasLease } = api.parts
      const items = holders.map((row) =>
        workerShape(row, { now, leases: api.store.usesLeases, alive: !row.dead && isHolderAlive(row) }),
      )
      const pushWorkers = (await api.parts.push?.list()) ?? []
      return { status: 200, body: { items: [...items, ...pushWorkers.map((worker) => pushWorkerShape(worker, now))] } }
    },
  }),
  route({
    method: "POST",
    path: "/workers",
    tag: WORK,
    summary: "Register a worker; only this response shows its token",
    scope: "worker",
    concerns: "server",
    body: { schema: wire.newWorker, required: true },
    responses: { 201: { description: "The worker", schema: wire.registeredWorker } },
    audit: "worker.register",
    requires: "workers",
    async handle({ body, caller, api }) {
      describeAction({ details: body.name })
      checkRegistration(caller, [...body.queues, ...body.handlers])
      const registered = await api.parts.workers!.register(body, caller.key)
      return { status: 201, body: registered }
    },
  }),
  route({
    method: "DELETE",
    path: "/workers/{id}",
    tag: WORK,
    summary: "Deregister a worker; its attempts in flight go to others",
    scope: "worker",
    concerns: "server",
    params: wire.workerParams,
    responses: { 204: { description: "Deregistered" } },
    audit: "worker.remove",
    requires: "workers",
    async handle(call) {
      const admin = may(call.caller, "admin", null)
      await call.api.parts.workers!.leave(admin ? (call.params.id as HolderId) : await callingWorker(call))
      return { status: 204 }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/heartbeat",
    summary: "Renew the worker's lease",
    body: { schema: wire.heartbeatBody },
    responses: { 200: { description: "The attempts to stop", schema: wire.heartbeat } },
    async handle(call) {
      return { status: 200, body: await call.api.parts.workers!.heartbeat(await callingWorker(call)) }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/claim",
    summary: "Claim up to `free` tasks; wait for them up to `wait_ms`",
    body: { schema: wire.claimBody, required: true },
    responses: { 200: { description: "The claimed tasks, and the attempts to stop or drop", schema: wire.claimReply } },
    async handle(call) {
      const signal = disconnected(call)
      return { status: 200, body: await call.api.parts.workers!.claim(await callingWorker(call), call.body, signal) }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/report",
    summary:
      "Report starts, progress and results of attempts, and claim up to `free` tasks; responds after the commit, with 409 when all were rejected",
    body: { schema: wire.reportBody, required: true },
    responses: { 200: { description: "The rejected attempts and the claimed tasks", schema: wire.reportReply } },
    async handle(call) {
      const signal = disconnected(call)
      const reply = await call.api.parts.workers!.report(await callingWorker(call), call.body, signal)
      if (reply === null) throw fenceLost()
      return { status: 200, body: reply }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/logs",
    summary: "Append to logs; the body has frames of a header, index records and raw bytes",
    body: { bytes: true },
    responses: { 200: { description: "The next offset of each log", schema: wire.logReply } },
    async handle(call) {
      const id = await callingWorker(call)
      const frames = decodeFrames(await collectBody(call.body, wire.MAX_LOG_BYTES))
      if (frames === null) throw invalid([{ path: "", message: "the body does not consist of log frames" }])
      return { status: 200, body: { logs: await call.api.parts.workers!.files.appendLogs(id, frames) } }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/outputs",
    summary: "Store an output that is too large for a report, as JSON text",
    query: wire.attemptQuery,
    body: { bytes: true },
    responses: { 200: { description: "The size of the output", schema: wire.outputReply } },
    async handle(call) {
      const id = await callingWorker(call)
      const bytes = await received(call.api.parts.workers!.files.putOutput(id, fenceOf(call), call.body))
      return { status: 200, body: { bytes } }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/artifacts",
    summary: "Store an artifact of an attempt; the report of its success lists the artifacts",
    query: wire.newArtifactQuery,
    body: { bytes: true },
    responses: { 200: { description: "The size of the artifact", schema: wire.outputReply } },
    async handle(call) {
      const id = await callingWorker(call)
      const bytes = await received(call.api.parts.workers!.files.putArtifact(id, fenceOf(call), call.query.file, call.body))
      return { status: 200, body: { bytes } }
    },
  }),
  route({
    ...UPSTREAM,
    path: "/workers/{id}/artifacts",
    summary: "Get an artifact of an upstream task",
    query: wire.upstreamArtifactQuery,
    responses: { 200: { description: "The file", types: [OCTETS] } },
    async handle(call) {
      const id = await callingWorker(call)
      return sent(await call.api.parts.workers!.files.upstreamArtifact(id, fenceOf(call), call.query))
    },
  }),
  route({
    ...UPSTREAM,
    path: "/workers/{id}/upstream",
    summary: "Get an upstream output that is too large to be part of an input",
    query: wire.upstreamQuery,
    responses: { 200: { description: "The output as JSON text", types: [OCTETS] } },
    async handle(call) {
      const id = await callingWorker(call)
      return sent(await call.api.parts.workers!.files.upstream(id, fenceOf(call), call.query.task))
    },
  }),
]
