// Encodes the events of a transaction as one text, in both stores. The text is compact, since it holds every status change of every
// task: lists in place of objects, ids of runs and names of tasks once, instants as milliseconds since the first one.

import type { RunId } from "../../core/model/ids.ts"
import { JOB_STATUSES } from "../../core/rules/jobs/jobs.ts"
import { iso } from "../../core/model/ports.ts"
import { RUN_STATUSES, type RunStatus, TASK_STATUSES } from "../../core/model/status.ts"
import type { LoggedEvent } from "../contract/event-log.ts"
import type { StoreEvent } from "../contract/store.ts"

export interface EncodedEvents {
  /** Runs of the events, each once. Events refer to them by index. */
  runs: RunId[]
  text: string
  /** Prefix of the encoded event of each task that may be dispatched (see `withDispatched`). */
  dispatches: string[]
}

const DISPATCHED = TASK_STATUSES.indexOf("dispatched")
/** Stored, as are the indexes in the lists of statuses: both are append-only. `enqueue_new` of Postgres writes them by hand (010-transactions.ts). */
const KIND = { run: 0, task: 1, job: 2 } as const satisfies Record<StoreEvent["type"], number>

/** Status: index in the statuses of its kind. 0: no error, -1: no total. `at` null: the instant of the batch. */
type Encoded =
  | [kind: 0, run: number, status: number, at: number, error?: string | 0]
  | [
      kind: 1,
      run: number,
      status: number,
      at: number | null,
      task: number,
      path: string,
      attempt: number,
      error?: string | 0,
      availableAt?: number | null,
      total?: number,
      details?: Pick<StoreEvent, "waiting" | "progress">,
    ]
  | [
      kind: 2,
      job: string,
      status: number,
      at: number,
      error?: string | 0,
      availableAt?: number | null,
      name?: number,
      queue?: number,
      progress?: StoreEvent["progress"],
    ]

interface EncodedBatch {
  base: number
  /** Names of tasks, of jobs and of their queues, each once. Events refer to them by index. */
  tasks: string[]
  events: Encoded[]
}

/** Returns the index of the value in the list. Appends it when it is new. */
const indexIn = <T>(list: T[], indexes: Map<T, number>, value: T): number => {
  let found = indexes.get(value)
  if (found === undefined) {
    found = list.length
    indexes.set(value, found)
    list.push(value)
  }
  return found
}

/** Returns a parser that remembers the last instant: events of one transaction mostly share theirs. */
const parser = (): ((at: string) => number) => {
  let last = ""
  let ms = 0
  return (at) => (at === last ? ms : (ms = Date.parse((last = at))))
}

/** Encodes events. `dispatches`: tasks that the statement which writes the batch may dispatch. */
export const encodeEvents = (
  events: readonly StoreEvent[],
  dispatches: readonly { runId: RunId; task: string; path: string }[] = [],
): EncodedEvents => {
  const runs: RunId[] = []
  const tasks: string[] = []
  const runIndexes = new Map<RunId, number>()
  const taskIndexes = new Map<string, number>()
  const parse = parser()
  const base = parse(events[0]!.at)
  const encode = (event: StoreEvent): Encoded => {
    const at = parse(event.at) - base
    const availableAt = event.availableAt === undefined ? null : Date.parse(event.availableAt) - base
    const error = event.error ?? 0
    switch (event.type) {
      case "run": {
        const run = indexIn(runs, runIndexes, event.runId)
        const status = RUN_STATUSES.indexOf(event.status as RunStatus)
        return error === 0 ? [KIND.run, run, status, at] : [KIND.run, run, status, at, error]
      }
      case "task": {
        const run = indexIn(runs, runIndexes, event.runId)
        const task = indexIn(tasks, taskIndexes, event.task!)
        const status = TASK_STATUSES.indexOf(event.status)
        const { total, waiting, progress } = event
        const encoded: Encoded = [KIND.task, run, status, at, task, event.path!, event.attempt!]
        const hasDetails = waiting !== undefined || progress !== undefined
        if (hasDetails || error !== 0 || availableAt !== null || total !== undefined)
          encoded.push(error, availableAt, total ?? -1)
        if (hasDetails) encoded.push({ ...(waiting && { waiting }), ...(progress && { progress }) })
        return encoded
      }
      case "job": {
        const { name, queue, progress } = event
        const status = JOB_STATUSES.indexOf(event.status)
        if (name === undefined || queue === undefined) return [KIND.job, event.jobId, status, at, error, availableAt]
        const [named, queued] = [indexIn(tasks, taskIndexes, name), indexIn(tasks, taskIndexes, queue)]
        const encoded: Encoded = [KIND.job, event.jobId, status, at, error, availableAt, named, queued]
        if (progress !== undefined) encoded.push(progress)
        return encoded
      }
      default:
        return event satisfies never
    }
  }
  const encodedEvents = events.map(encode)
  const prefixes = dispatches.map(({ runId, task, path }) => {
    const encoded = [KIND.task, indexIn(runs, runIndexes, runId), DISPATCHED, null, indexIn(tasks, taskIndexes, task), path]
    return JSON.stringify(encoded).slice(0, -"]".length)
  })
  return { runs, text: JSON.stringify({ base, tasks, events: encodedEvents } satisfies EncodedBatch), dispatches: prefixes }
}

/** Returns SQL that appends the events of dispatched tasks. `rows`: prefix of the encoded event and attempt number of each. */
export const withDispatched = (text: string, rows: { prefix: string; attempt: string }): string =>
  `left(${text}, -2) || COALESCE(string_agg(',' || ${rows.prefix} || ',' || ${rows.attempt} || ']', ''), '') || ']}'`

/** Decodes events. `written`: the instant of the batch. */
export const decodeEvents = (runs: readonly RunId[], text: string, written: string): StoreEvent[] => {
  const { base, tasks, events } = JSON.parse(text) as EncodedBatch
  return events.map((event) => {
    const at = event[3] === null ? written : iso(base + event[3])
    switch (event[0]) {
      case KIND.run: {
        const [, run, status, , error] = event
        const decoded = { type: "run", runId: runs[run]!, status: RUN_STATUSES[status]!, at } as const
        return error === undefined || error === 0 ? decoded : { ...decoded, error }
      }
      case KIND.task: {
        const [, run, status, , task, path, attempt, error = 0, availableAt = null, total = -1, details] = event
        return {
          type: "task",
          runId: runs[run]!,
          task: tasks[task]!,
          path,
          attempt,
          status: TASK_STATUSES[status]!,
          at,
          ...(error !== 0 && { error }),
          ...(availableAt !== null && { availableAt: iso(base + availableAt) }),
          ...(total !== -1 && { total }),
          ...details,
        }
      }
      case KIND.job: {
        const [, jobId, status, , error = 0, availableAt = null, name, queue, progress] = event
        return {
          type: "job",
          runId: NO_RUN,
          jobId,
          ...(name !== undefined && { name: tasks[name]! }),
          ...(queue !== undefined && { queue: tasks[queue]! }),
          status: JOB_STATUSES[status]!,
          at,
          ...(error !== 0 && { error }),
          ...(availableAt !== null && { availableAt: iso(base + availableAt) }),
          ...(progress !== undefined && { progress }),
        }
      }
      default:
        return event satisfies never
    }
  })
}

/** `runId` of a job's events. */
export const NO_RUN = "" as RunId

/** Parses `<batch>.<index>`; returns null for other text. */
export const parseEventId = (id: string): { batch: number; index: number } | null => {
  const found = /^(\d{1,15})\.(\d{1,9})$/.exec(id)
  return found === null ? null : { batch: Number(found[1]), index: Number(found[2]) }
}

export const eventId = (batch: number, index: number): string => `${batch}.${index}`

/** A row of the event log, in order: Postgres may write several rows of one batch. `events` null: the store knows that no event matches. */
export interface EventBatch {
  batch: number
  size: number
  at: string
  runs: string
  events: string | null
}

/**
 * Returns the events of these batches after the event `after`, at most `limit`. The cursor stands after the last batch, even if no
 * event of it matched, or after the last event returned.
 */
export const eventsAfter = (
  batches: Iterable<EventBatch>,
  after: string,
  { runId, limit }: { runId?: RunId | undefined; limit: number },
): { events: LoggedEvent[]; cursor: string } => {
  const from = parseEventId(after)!
  const events: LoggedEvent[] = []
  let cursor = after
  let previous = 0
  /** Number of events of the batch up to this row. */
  let end = 0
  for (const { batch, size, at, runs, events: text } of batches) {
    const begin = batch === previous ? end : 0
    previous = batch
    end = begin + size
    const first = batch === from.batch ? Math.max(begin, from.index + 1) : begin
    if (first >= end) continue
    const decoded = text === null ? [] : decodeEvents(JSON.parse(runs) as RunId[], text, at)
    for (let index = first; text !== null && index < end; index++) {
      const event = decoded[index - begin]!
      if (runId !== undefined && event.runId !== runId) continue
      events.push({ ...event, id: eventId(batch, index) })
      if (events.length === limit) return { events, cursor: eventId(batch, index) }
    }
    cursor = eventId(batch, end - 1)
  }
  return { events, cursor }
}
