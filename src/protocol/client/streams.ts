// Streams that survive broken connections: events continue after the last id, logs at the next byte or line. Reconnects with growing
// delays, and gives up after a minute without a connection.

import { isTaskFinished } from "../../core/model/status.ts"
import type { Event, LogLine, Task } from "../api/types.ts"
import { ClientError, unreachable } from "./errors.ts"
import { type ByteStream, readSse, type SseMessage } from "./sse.ts"
import type { Query, Transport } from "./transport.ts"

export type LogEvent = LogLine & { run_id: string; task: string; index: number | null; path: string; attempt: number }

/** `position`: the stream is live from this id on. `gap`: some events are no longer stored. */
export type StreamItem =
  | { type: "event"; id: string; event: Event }
  | { type: "log"; line: LogEvent }
  | { type: "position"; id: string }
  | { type: "gap" }

export interface EventsRequest {
  /** Default: all runs. */
  runId?: string
  /** Only events after this id. Default: only new events. */
  after?: string
  /** Include log lines; requires `runId`. */
  logs?: boolean
  signal?: AbortSignal
}

/** Returns whether the signal is aborted. A function, because the compiler assumes that the property does not change during an await. */
const isAborted = (signal: AbortSignal | undefined): boolean => signal?.aborted ?? false

const FIRST_WAIT_MS = 200
const MAX_WAIT_MS = 5000
/** After this time without a connection, a stream fails. */
const MAX_OUTAGE_MS = 60_000

/** Delays between connections: they grow, and start over after a successful connection. */
class ReconnectDelay {
  readonly #transport: Transport
  #waitMs = FIRST_WAIT_MS
  #outageMs = 0

  constructor(transport: Transport) {
    this.#transport = transport
  }

  reset(): void {
    this.#waitMs = FIRST_WAIT_MS
    this.#outageMs = 0
  }

  /** Waits before the next connection. Throws the error when it is permanent, or when the outage is too long. */
  async wait(error: unknown, signal: AbortSignal | undefined): Promise<void> {
    const failure = error instanceof ClientError ? error : unreachable(this.#transport.url, error)
    const isTemporary = failure.code === "UNREACHABLE" || failure.code === "UNAVAILABLE" || failure.status === 502
    if (!isTemporary || this.#outageMs >= MAX_OUTAGE_MS) throw failure
    await this.#transport.wait(this.#waitMs, signal)
    this.#outageMs += this.#waitMs
    this.#waitMs = Math.min(this.#waitMs * 2, MAX_WAIT_MS)
  }
}

export async function* followEvents(transport: Transport, request: EventsRequest): AsyncGenerator<StreamItem> {
  const { runId, logs, signal } = request
  const delay = new ReconnectDelay(transport)
  let last = request.after
  while (!isAborted(signal)) {
    try {
      const response = await transport.open({
        path: runId === undefined ? "/events" : `/runs/${runId}/events`,
        query: logs === true ? { logs } : {},
        headers: { accept: "text/event-stream", ...(last !== undefined && { "last-event-id": last }) },
        ...(signal !== undefined && { signal }),
      })
      delay.reset()
      for await (const message of readSse(response.body!)) {
        if (message.id !== "") last = message.id
        const item = itemOf(message)
        if (item !== null) yield item
      }
      // A server that shuts down ends its streams; the next connection reaches another server.
      await delay.wait(new Error("the stream ended"), signal)
    } catch (error) {
      if (isAborted(signal)) return
      await delay.wait(error, signal)
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

export interface TaskAddress {
  runId: string
  task: string
  index?: number
  path?: string
  /** Label of the instance, if no other instance of the task has it. */
  label?: string
}

export const taskRoute = ({ runId, task }: TaskAddress): string =>
  `/runs/${encodeURIComponent(runId)}/tasks/${encodeURIComponent(task)}`

export const instanceQuery = ({ index, path, label }: TaskAddress): Query => ({ index, path, label })

export interface FollowLogRequest extends TaskAddress {
  /** Only this attempt. Default: the latest one and those after it, until the task finishes. */
  attempt?: number
  signal?: AbortSignal
}

/** Yields the log of a task, each byte once, until the task finishes. */
export const followLog = (transport: Transport, request: FollowLogRequest): AsyncGenerator<Uint8Array> =>
  followAttempts(transport, request, rawLog)

/** Yields the log of a task line by line, until the task finishes. */
export const followLogLines = (transport: Transport, request: FollowLogRequest): AsyncGenerator<LogLine> =>
  followAttempts(transport, request, lineLog)

type LogPiece<T> = { value: T; size: number }

interface LogReading extends FollowLogRequest {
  attempt: number
  /** Bytes or lines of the attempt's log that were yielded already. */
  done: number
  onOpen(): void
}

async function* followAttempts<T>(
  transport: Transport,
  request: FollowLogRequest,
  read: (transport: Transport, reading: LogReading) => AsyncGenerator<LogPiece<T>>,
): AsyncGenerator<T> {
  const { attempt: only, signal } = request
  const delay = new ReconnectDelay(transport)
  const readTask = (): Promise<Task> =>
    transport.json<Task>({
      path: taskRoute(request),
      query: instanceQuery(request),
      ...(signal !== undefined && { signal }),
    })
  let attempt = only ?? 0
  let done = 0
  while (!isAborted(signal)) {
    try {
      if (attempt === 0) attempt = await waitForAttempt(transport, request, readTask, 1)
      if (attempt === 0) return
      for await (const { value, size } of read(transport, { ...request, attempt, done, onOpen: () => delay.reset() })) {
        done += size
        yield value
      }
      const now = await readTask()
      const isRunning = now.attempt === attempt && (now.status === "running" || now.status === "dispatched")
      if (isRunning) throw new Error("the stream ended before the attempt finished")
      if (only !== undefined || (isTaskFinished(now.status) && now.attempt <= attempt)) return
      const next = await waitForAttempt(transport, request, readTask, attempt + 1)
      if (next === 0) return
      // One by one: an attempt that has finished meanwhile has a log too.
      attempt += 1
      done = 0
    } catch (error) {
      if (isAborted(signal)) return
      await delay.wait(error, signal)
    }
  }
}

/** Waits for an attempt; returns the number of the latest one, or 0 when the task has finished without it. */
const waitForAttempt = async (
  transport: Transport,
  { runId, task, signal }: FollowLogRequest,
  readTask: () => Promise<Task>,
  wanted: number,
): Promise<number> => {
  const latestAttempt = async (): Promise<number | null> => {
    const now = await readTask()
    const latest = Math.max(0, ...now.attempts.map((each) => each.attempt))
    if (latest >= wanted) return latest
    return isTaskFinished(now.status) ? 0 : null
  }
  const known = await latestAttempt()
  if (known !== null) return known
  // Reads the task once the stream is live, and after each of its events: so nothing is missed.
  for await (const item of followEvents(transport, { runId, ...(signal !== undefined && { signal }) })) {
    if (item.type === "event" && item.event.event === "task" && item.event.task !== task) continue
    const found = await latestAttempt()
    if (found !== null) return found
  }
  return 0
}

const openLog = async (transport: Transport, reading: LogReading, query: Query, accept: string): Promise<ByteStream> => {
  const { attempt, signal, onOpen } = reading
  const response = await transport.open({
    path: `${taskRoute(reading)}/logs`,
    query: { ...instanceQuery(reading), attempt, follow: true, ...query },
    headers: { accept },
    ...(signal !== undefined && { signal }),
  })
  onOpen()
  return response.body!
}

async function* rawLog(transport: Transport, reading: LogReading): AsyncGenerator<LogPiece<Uint8Array>> {
  const body = await openLog(transport, reading, { offset: reading.done }, "text/plain")
  for await (const bytes of body) yield { value: bytes, size: bytes.byteLength }
}

async function* lineLog(transport: Transport, reading: LogReading): AsyncGenerator<LogPiece<LogLine>> {
  const body = await openLog(transport, reading, {}, "text/event-stream")
  let seen = 0
  for await (const { event, data } of readSse(body)) {
    if (event !== "log" || seen++ < reading.done) continue
    yield { value: JSON.parse(data) as LogLine, size: 1 }
  }
}
