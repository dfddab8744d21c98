// Streams the events of one run, or of all runs and jobs, as server-sent events.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { RunId } from "../../core/model/ids.ts"
import { EVENT_ID } from "../../core/model/event-id.ts"
import { invalidField } from "../shared/errors.ts"
import { eventFilter } from "../http/workflow-limits.ts"
import type { Frame } from "../feed/event-feed.ts"
import { SSE_TYPE } from "./log-format.ts"
import type { Api } from "../http/ports.ts"
import { RunLogs } from "./run-logs.ts"

/** Time after which a browser reconnects. */
const RECONNECT_MS = 2000
const HEARTBEAT = ": ping\n\n"
const GAP = `event: gap\ndata: {"message":"some events are no longer kept; load the current state again"}\n\n`

/** Returns the id to resume from: the Last-Event-ID header or the query parameter, or null. */
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
  // The path of one run was checked before.
  const filter = runId === null ? eventFilter(api, request.caller) : null
  let delivered = Promise.resolve()
  const runLogs = logs && runId !== null ? new RunLogs(api, runId, stream) : null
  const fail = (error: unknown): void => {
    api.log.warn({ error: String(error) }, "aborted an event stream")
    stream.abort()
  }
  try {
    await api.feed.follow({
      runId,
      after,
      signal: stream.closed,
      catchUp: async (frames) => stream.send(textOf(filter === null ? frames : await filter(frames))),
      deliver: (frames) => {
        if (filter === null) stream.write(textOf(frames))
        else
          delivered = delivered
            .then(async () => stream.write(textOf(await filter(frames))))
            .catch((error: unknown) => fail(error))
        runLogs?.update(frames)
      },
      onGap: () => stream.write(GAP),
      // A client does not see an id without data as an event, but a client that is cut off before its first event resumes from it.
      onLive: (id) => stream.write(`id: ${id}\n\n`),
    })
    await runLogs?.start()
  } catch (error) {
    fail(error)
  }
}
