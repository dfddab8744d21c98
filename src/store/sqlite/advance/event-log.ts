// The event log: each transaction appends its events as one batch, streams read it, retention trims it by age.

import type { RunId } from "../../../core/model/ids.ts"
import { iso } from "../../../core/model/ports.ts"
import { MAX_BATCHES } from "../../shared/bounds.ts"
import { encodeEvents, type EventBatch, eventId, eventsAfter, parseEventId } from "../../shared/event-codec.ts"
import type { EventLog } from "../../contract/event-log.ts"
import type { Database } from "../connection/database.ts"
import type { Access, StoreContext, Tx } from "../tx.ts"

export const eventLog = ({ read, write }: Access): EventLog => ({
  readEvents: (query) => read((context) => readEvents(context, query)),
  trimEvents: (query) => write((tx) => trimEvents(tx, query)),
})

const APPEND = "INSERT INTO events (at, size, runs, events) VALUES (?, ?, ?, ?)"

/** Appends the events of the operations of a transaction. Called before its commit. */
export const appendEvents = (db: Database, operations: readonly Pick<Tx, "at" | "events">[]): void => {
  const events = operations.flatMap((operation) => operation.events)
  if (events.length === 0) return
  const { runs, text } = encodeEvents(events)
  db.run(APPEND, operations.at(-1)!.at, events.length, JSON.stringify(runs), text)
}

const NEWEST = "SELECT batch, size FROM events ORDER BY batch DESC LIMIT 1"
const OLDEST = "SELECT batch FROM events ORDER BY batch LIMIT 1"

const PAGE = "SELECT batch, size, at, runs, events FROM events WHERE batch >= ?1 ORDER BY batch LIMIT ?2 + 0"

type Columns = [batch: number, size: number, at: string, runs: string, events: string]

/** Reads at most MAX_BATCHES batches. The returned cursor stands after the last batch read, even if no event of it matched. */
const readEvents = (
  context: StoreContext,
  { after, runId, limit }: { after: string | null; runId?: RunId; limit: number },
): Awaited<ReturnType<EventLog["readEvents"]>> => {
  const from = after === null ? null : parseEventId(after)
  if (from === null) {
    const newest = context.db.get<[number, number]>(NEWEST)
    return { events: [], cursor: newest === undefined ? eventId(0, 0) : eventId(newest[0], newest[1] - 1), gap: after !== null }
  }
  const oldest = context.db.get<[number]>(OLDEST)?.[0] ?? 0
  const gap = from.batch > 0 && from.batch < oldest
  const batches = context.db.all<Columns>(PAGE, from.batch, MAX_BATCHES).map(([batch, size, at, runs, events]): EventBatch => ({
    batch,
    size,
    at,
    runs,
    events: runId === undefined || runs.includes(runId) ? events : null,
  }))
  return { ...eventsAfter(batches, after!, { runId, limit }), gap }
}

/** Every batch but the newest, whose id the next cursor needs. */
const TRIMMABLE = "SELECT batch, at FROM events WHERE batch < (SELECT max(batch) FROM events) ORDER BY batch LIMIT ? + 0"

const TRIM = "DELETE FROM events WHERE batch <= ?"

const trimEvents = (tx: Tx, { olderThanMs, limit }: { olderThanMs: number; limit: number }): number => {
  const before = iso(tx.now - olderThanMs)
  const batches = tx.db.all<[number, string]>(TRIMMABLE, limit)
  const firstKept = batches.findIndex(([, at]) => at >= before)
  const last = (firstKept === -1 ? batches : batches.slice(0, firstKept)).at(-1)
  return last === undefined ? 0 : tx.db.run(TRIM, last[0])
}
