// Server-sent events of one run or of all.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { RunId } from "../../core/model/ids.ts"
import { EVENT_ID } from "../../protocol/api/streams.ts"
import { invalidField } from "../http/errors.ts"
import type { Frame } from "./event-feed.ts"
import { SSE_TYPE } from "./log-format.ts"
import type { Api } from "../http/ports.ts"
import { RunLogs } from "./run-logs.ts"

/** How long a browser waits before it connects again. */
const RECONNECT_MS = 2000
const HEARTBEAT = ": ping\n\n"
const GAP = `event: gap\ndata: {"message":"some events are no longer kept; load the state anew"}\n\n`

export const lastEventId = (request: FastifyRequest, query: string | undefined): string | null => {
  const header = request.headers["last-event-id"]
  const id = typeof header === "string" && header !== "" ? header : (query ?? null)
  if (id !== null && !EVENT_ID.test(id)) throw invalidField("Last-Event-ID", "must be the id of an event, such as 42.0")
  return id
}

const textOf = (frames: readonly Frame[]): string => frames.map((frame) => frame.text).join("")

export const streamEvents = async (
  api: Api,
  request: FastifyRequest,
  reply: FastifyReply,
  { runId, after, logs }: { runId: RunId | null; after: string | null; logs: boolean },
): Promise<void> => {
  const stream = api.streams.open(request, reply, { type: SSE_TYPE, heartbeat: HEARTBEAT })
  stream.write(`retry: ${RECONNECT_MS}\n: ork\n\n`)
  const lines = logs && runId !== null ? new RunLogs(api, runId, stream) : null
  try {
    await api.feed.follow({
      runId,
      after,
      signal: stream.closed,
      catchUp: (frames) => stream.send(textOf(frames)),
      deliver: (frames) => {
        stream.write(textOf(frames))
        lines?.update(frames)
      },
      onGap: () => stream.write(GAP),
      // Without data it is no event to a client, but one that is cut off before the first event resumes from here.
      onLive: (id) => stream.write(`id: ${id}\n\n`),
    })
    await lines?.start()
  } catch (error) {
    api.log.warn({ error: String(error) }, "an event stream was cut short")
    stream.abort()
  }
}
