// Streams that outlive a connection: events resume after the last id that arrived, logs at the byte or line that is due. A server
// that is away is asked again until patience is over.

import type { z } from "zod"
import { taskEnded } from "../../core/model/status.ts"
import type * as runs from "../api/runs.ts"
import type * as streams from "../api/streams.ts"
import { ClientError, unreachable } from "./errors.ts"
import { type ByteStream, readSse, type SseMessage } from "./sse.ts"
import type { Query, Transport } from "./transport.ts"

export type Event = z.output<typeof streams.event>
export type LogLine = z.output<typeof streams.logLine>
export type LogEvent = LogLine & { run_id: string; task: string; index: number | null; path: string; attempt: number }
type Task = z.output<typeof runs.task>

/** `position`: nothing happened, but the stream is live from this id on. `gap`: some events are no longer kept. */
export type StreamItem =
  | { type: "event"; id: string; event: Event }
  | { type: "log"; line: LogEvent }
  | { type: "position"; id: string }
  | { type: "gap" }

export interface EventsRequest {
  /** Of all runs if not said. */
  runId?: string
  /** Of this id and before nothing; if not said, from now on. */
  after?: string
  /** Log lines of that run too. */
  logs?: boolean
  signal?: AbortSignal
}

/** A call, as the compiler would else think that it cannot change while somebody waits. */
const gone = (signal: AbortSignal | undefined): boolean => signal?.aborted ?? false

const FIRST_WAIT_MS = 200
const MAX_WAIT_MS = 5000
/** Without any connection for so long, the server is taken to be gone. */
const PATIENCE_MS = 60_000

/** Waits between connections: shorter ones first, from the start again whenever something arrived. */
class Patience {
  readonly #transport: Transport
  #waitMs = FIRST_WAIT_MS
  #spentMs = 0

  constructor(transport: Transport) {
    this.#transport = transport
  }

  refresh(): void {
    this.#waitMs = FIRST_WAIT_MS
    this.#spentMs = 0
  }

  /** Throws what went wrong when waiting is no use or over. */
  async wait(error: unknown, signal: AbortSignal | undefined): Promise<void> {
    const failure = error instanceof ClientError ? error : unreachable(this.#transport.url, error)
    const passing = failure.code === "UNREACHABLE" || failure.code === "UNAVAILABLE" || failure.status === 502
    if (!passing || this.#spentMs >= PATIENCE_MS) throw failure
    await this.#transport.wait(this.#waitMs, signal)
    this.#spentMs += this.#waitMs
    this.#waitMs = Math.min(this.#waitMs * 2, MAX_WAIT_MS)
  }
}

export async function* followEvents(transport: Transport, request: EventsRequest): AsyncGenerator<StreamItem> {
  const { runId, logs, signal } = request
  const patience = new Patience(transport)
  let last = request.after
  while (!gone(signal)) {
    try {
      const response = await transport.open({
        path: runId === undefined ? "/events" : `/runs/${runId}/events`,
        query: logs === true ? { logs } : {},
        headers: { accept: "text/event-stream", ...(last !== undefined && { "last-event-id": last }) },
        ...(signal !== undefined && { signal }),
      })
      patience.refresh()
      for await (const message of readSse(response.body!)) {
        if (message.id !== "") last = message.id
        const item = itemOf(message)
        if (item !== null) yield item
      }
      // A server that stops ends its streams in order: the next connection goes to the one after it.
      await patience.wait(new Error("the stream ended"), signal)
    } catch (error) {
      if (gone(signal)) return
      await patience.wait(error, signal)
    }
  }
}

const itemOf = ({ id, event, data }: SseMessage): StreamItem | null => {
  if (data === "") return { type: "position", id }
  if (event === "gap") return { type: "gap" }
  if (event === "log") return { type: "log", line: JSON.parse(data) as LogEvent }
  if (event === "run" || event === "task" || event === "job") return { type: "event", id, event: JSON.parse(data) as Event }
  return null
}

// -- logs ----------------------------------------------------------------------------------------------------------------------

export interface TaskPlace {
  runId: string
  task: string
  index?: number
  path?: string
}

export const taskPath = ({ runId, task }: TaskPlace): string => `/runs/${runId}/tasks/${encodeURIComponent(task)}`

export const instanceQuery = ({ index, path }: TaskPlace): Query => ({ index, path })

export interface FollowLogRequest extends TaskPlace {
  /** Only this one; if not said, the latest and those after it until the task ends. */
  attempt?: number
  signal?: AbortSignal
}

/** The bytes that a task writes, each once, until it ends. */
export const followLog = (transport: Transport, request: FollowLogRequest): AsyncGenerator<Uint8Array> =>
  followAttempts(transport, request, rawLog)

/** The same, line by line. */
export const followLogLines = (transport: Transport, request: FollowLogRequest): AsyncGenerator<LogLine> =>
  followAttempts(transport, request, lineLog)

type Piece<T> = { value: T; size: number }

interface Reading extends FollowLogRequest {
  attempt: number
  /** Of the attempt's log: bytes or lines that are not to come again. */
  done: number
  opened(): void
}

async function* followAttempts<T>(
  transport: Transport,
  request: FollowLogRequest,
  read: (transport: Transport, reading: Reading) => AsyncGenerator<Piece<T>>,
): AsyncGenerator<T> {
  const { attempt: only, signal } = request
  const patience = new Patience(transport)
  const look = (): Promise<Task> =>
    transport.json<Task>({
      path: taskPath(request),
      query: instanceQuery(request),
      ...(signal !== undefined && { signal }),
    })
  let attempt = only ?? 0
  let done = 0
  while (!gone(signal)) {
    try {
      if (attempt === 0) attempt = await begun(transport, request, look, 1)
      if (attempt === 0) return
      for await (const { value, size } of read(transport, { ...request, attempt, done, opened: () => patience.refresh() })) {
        done += size
        yield value
      }
      const now = await look()
      const live = now.attempt === attempt && (now.status === "running" || now.status === "dispatched")
      if (live) throw new Error("the stream ended before the attempt did")
      if (only !== undefined || (taskEnded(now.status) && now.attempt <= attempt)) return
      const next = await begun(transport, request, look, attempt + 1)
      if (next === 0) return
      // One after the other: an attempt that came and went meanwhile has its log too.
      attempt += 1
      done = 0
    } catch (error) {
      if (gone(signal)) return
      await patience.wait(error, signal)
    }
  }
}

/** Waits for an attempt; gives the number of the latest, or 0 when the task has ended without it. */
const begun = async (
  transport: Transport,
  { runId, task, signal }: FollowLogRequest,
  look: () => Promise<Task>,
  wanted: number,
): Promise<number> => {
  const standing = async (): Promise<number | null> => {
    const now = await look()
    const latest = Math.max(0, ...now.attempts.map((each) => each.attempt))
    if (latest >= wanted) return latest
    return taskEnded(now.status) ? 0 : null
  }
  const known = await standing()
  if (known !== null) return known
  // From the moment that the stream is live, nothing is missed: so, a look then, and one whenever something happens to the task.
  for await (const item of followEvents(transport, { runId, ...(signal !== undefined && { signal }) })) {
    if (item.type === "event" && item.event.event === "task" && item.event.task !== task) continue
    const found = await standing()
    if (found !== null) return found
  }
  return 0
}

const openLog = async (transport: Transport, reading: Reading, query: Query, accept: string): Promise<ByteStream> => {
  const { attempt, signal, opened } = reading
  const response = await transport.open({
    path: `${taskPath(reading)}/logs`,
    query: { ...instanceQuery(reading), attempt, follow: true, ...query },
    headers: { accept },
    ...(signal !== undefined && { signal }),
  })
  opened()
  return response.body!
}

async function* rawLog(transport: Transport, reading: Reading): AsyncGenerator<Piece<Uint8Array>> {
  const body = await openLog(transport, reading, { offset: reading.done }, "text/plain")
  for await (const bytes of body) yield { value: bytes, size: bytes.byteLength }
}

async function* lineLog(transport: Transport, reading: Reading): AsyncGenerator<Piece<LogLine>> {
  const body = await openLog(transport, reading, {}, "text/event-stream")
  let seen = 0
  for await (const { event, data } of readSse(body)) {
    if (event !== "log" || seen++ < reading.done) continue
    yield { value: JSON.parse(data) as LogLine, size: 1 }
  }
}
