// Who runs tasks: servers, workers, and `ork run`. And what workers and servers say to each other; a worker does that with the token
// that it was given when it registered, for itself alone.

import { Readable } from "node:stream"
import type { AttemptId, HolderId } from "../../core/model/ids.ts"
import { workers } from "../../protocol/api/service.ts"
import * as wire from "../../protocol/api/workers.ts"
import { decodeFrames } from "../../protocol/wire/log-frames.ts"
import { type FencedToken, OutputTooLarge } from "../../engine/workers/worker-service.ts"
import { collectBody } from "../http/body.ts"
import { ApiError, conflict, invalid, notFound } from "../http/errors.ts"
import { type Call, route } from "../http/route.ts"
import { workerShape } from "../views/shapes.ts"

const TAG = "workers"
const WORK = "worker protocol"

/** What a worker does as itself; refused once it is not a worker any more. */
const OF_WORKER = {
  method: "POST",
  tag: WORK,
  scope: "worker",
  params: wire.workerParams,
  errors: [409],
  needs: "workers",
} as const

/** The worker that speaks, if it may speak for this one. */
const itself = async ({ params, caller, api }: Call<{ id: string }, unknown, unknown>): Promise<HolderId> => {
  const id = params.id as HolderId
  if (caller.worker === id) return id
  if (caller.worker === undefined && (await api.store.workerToken(id)) === null) throw notFound(`there is no worker ${id}`)
  throw new ApiError("FORBIDDEN", "only the worker itself may do this, with the token that it got when it registered")
}

const fenceOf = (call: Call<unknown, { row: number; attempt_id: string }, unknown>): FencedToken => {
  const token = call.request.headers[wire.ATTEMPT_TOKEN_HEADER]
  return {
    row: call.query.row,
    attemptId: call.query.attempt_id as AttemptId,
    token: typeof token === "string" ? token : "",
  }
}

const refused = (): ApiError => conflict("the attempt belongs to another by now, or its token is wrong")

/** Aborted when nobody waits for the answer any more. */
const untilGone = ({ reply }: Pick<Call<unknown, unknown, unknown>, "reply">): AbortSignal => {
  const gone = new AbortController()
  reply.raw.once("close", () => gone.abort())
  return gone.signal
}

export const workerRoutes = [
  route({
    method: "GET",
    path: "/workers",
    tag: TAG,
    summary: "Processes that run tasks",
    scope: "read",
    responses: { 200: { description: "The processes", schema: workers } },
    async handle({ api }) {
      const now = api.clock.now()
      const holders = await api.store.listHolders()
      return { status: 200, body: { items: holders.map((row) => workerShape(row, now, api.store.leases)) } }
    },
  }),
  route({
    method: "POST",
    path: "/workers",
    tag: WORK,
    summary: "Registers a worker; this answer is the only one that shows its token",
    scope: "worker",
    body: { schema: wire.newWorker, required: true },
    responses: { 201: { description: "The worker", schema: wire.registered } },
    audit: "worker.register",
    requires: "workers",
    async handle({ body, api }) {
      const made = await api.parts.workers!.register(body)
      return { status: 201, body: made, target: made.id, details: body.name }
    },
  }),
  route({
    method: "DELETE",
    path: "/workers/{id}",
    tag: WORK,
    summary: "The worker leaves; what it still has is given to others",
    scope: "worker",
    params: wire.workerParams,
    responses: { 204: { description: "Gone" } },
    audit: "worker.remove",
    requires: "workers",
    async handle(call) {
      const admin = call.caller.scopes.includes("admin")
      await call.api.parts.workers!.leave(admin ? (call.params.id as HolderId) : await itself(call))
      return { status: 204 }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/heartbeat",
    summary: "Renews the worker's lease",
    body: { schema: wire.heartbeatBody },
    responses: { 200: { description: "What to stop", schema: wire.heartbeat } },
    async handle(call) {
      return { status: 200, body: await call.api.parts.workers!.heartbeat(await itself(call)) }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/claim",
    summary: "Takes work, up to `free` tasks; waits for it up to `wait_ms`",
    body: { schema: wire.claimBody, required: true },
    responses: { 200: { description: "Work, and what the worker must know", schema: wire.claimed } },
    async handle(call) {
      const gone = untilGone(call)
      return { status: 200, body: await call.api.parts.workers!.claim(await itself(call), call.body, gone) }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/report",
    summary: "Starts, progress and ends of attempts; answered when they are committed, 409 when all were refused",
    body: { schema: wire.reportBody, required: true },
    responses: { 200: { description: "What was refused", schema: wire.reported } },
    async handle(call) {
      const lost = await call.api.parts.workers!.report(await itself(call), call.body)
      const all = new Set(call.body.entries.map((entry) => entry.attempt_id)).size
      if (lost.length === all) throw refused()
      return { status: 200, body: { refused: lost } }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/logs",
    summary: "Pieces of logs, as frames of a header, index records and raw bytes",
    body: { bytes: true },
    responses: { 200: { description: "Where to go on in each log", schema: wire.logAnswer } },
    async handle(call) {
      const id = await itself(call)
      const frames = decodeFrames(await collectBody(call.body, wire.MAX_LOG_BYTES))
      if (frames === null) throw invalid([{ path: "", message: "the body is not made of log frames" }])
      return { status: 200, body: { logs: await call.api.parts.workers!.appendLogs(id, frames) } }
    },
  }),
  route({
    ...OF_WORKER,
    path: "/workers/{id}/outputs",
    summary: "An output that is too large for a report, whole, as JSON text",
    query: wire.attemptQuery,
    body: { bytes: true },
    responses: { 200: { description: "Its size", schema: wire.outputAnswer } },
    async handle(call) {
      const putting = call.api.parts.workers!.putOutput(await itself(call), fenceOf(call), call.body)
      const bytes = await putting.catch((error: unknown) => {
        throw error instanceof OutputTooLarge ? new ApiError("TOO_LARGE", error.message) : error
      })
      if (bytes === null) throw refused()
      return { status: 200, body: { bytes } }
    },
  }),
  route({
    method: "GET",
    path: "/workers/{id}/upstream",
    tag: WORK,
    summary: "An upstream output that is too large to be part of an input",
    scope: "worker",
    params: wire.workerParams,
    query: wire.upstreamQuery,
    responses: { 200: { description: "The output as JSON text", types: ["application/octet-stream"] } },
    errors: [409],
    requires: "workers",
    async handle(call) {
      const found = await call.api.parts.workers!.upstream(await itself(call), fenceOf(call), call.query.task)
      if (found === null) throw refused()
      return { status: 200, body: Readable.from(found), headers: { "content-type": "application/octet-stream" } }
    },
  }),
]
