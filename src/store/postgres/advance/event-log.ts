// The event log: written by each transaction that has events, read by streams, trimmed by age.
//
// A row belongs to the batch of its own transaction id, or of the newest one that committed before the row was written, if that is newer:
// so the events of a claim follow those of the transaction that made its task ready. Readers see only batches below every open transaction
// of the whole server, so none can appear behind their cursor; a long transaction elsewhere delays streams and loses nothing.

import type { RunId } from "../../../core/model/ids.ts"
import { MAX_BATCHES } from "../../shared/bounds.ts"
import { encodeEvents, type EventBatch, eventId, eventsAfter, parseEventId } from "../../shared/event-codec.ts"
import type { EventLog } from "../../contract/event-log.ts"
import type { Access, Tx } from "../tx.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"

export const eventLog = ({ read, write }: Access): EventLog => ({
  readEvents: (query) => read((connection) => readEvents(connection, query)),
  trimEvents: (query) => write((tx) => trimEvents(tx, query)),
})

const APPEND = statement("events_append", `INSERT INTO events (at, size, runs, events) VALUES (${NOW}, :size, :runs, :events)`)

/**
 * Appends the events of the transaction to the log, once, by its last statement, whose snapshot contains all that the transaction has
 * read. Sends its statement before it returns.
 */
export const appendEvents = async (tx: Tx): Promise<void> => {
  const { events } = tx
  if (events.length === 0) return
  const { runs, text } = encodeEvents(events)
  await tx.run(APPEND, { size: events.length, runs: JSON.stringify(runs), events: text })
}

const COMPLETE = "batch < (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"

const NEWEST = statement(
  "events_newest",
  `SELECT batch, sum(size)::int AS size FROM events WHERE batch = (SELECT max(batch) FROM events WHERE ${COMPLETE}) GROUP BY batch`,
)

/** Read after the page: batches that were trimmed in between are a gap. */
const BOUNDS = statement(
  "events_bounds",
  `SELECT (SELECT min(batch) FROM events) AS oldest, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next`,
)

const PAGE = statement(
  "events_page",
  `SELECT batch, size, at, runs, CASE WHEN :runId::text IS NULL OR strpos(runs, :runId) > 0 THEN events END AS events
   FROM events WHERE batch >= :from::bigint AND ${COMPLETE} ORDER BY batch, seq LIMIT ${MAX_BATCHES}`,
)

type Page = Awaited<ReturnType<EventLog["readEvents"]>>

/** Reads at most MAX_BATCHES; the cursor moves behind them, whether they matched or not. */
const readEvents = async (
  connection: SqlRunner,
  { after, runId, limit }: { after: string | null; runId?: RunId; limit: number },
): Promise<Page> => {
  const from = after === null ? null : parseEventId(after)
  if (from === null) return fromNow(connection, after !== null)
  const page = connection.run<EventBatch>(PAGE, { from: from.batch, runId: runId ?? null })
  const bounds = connection.run<{ oldest: number | null; next: number }>(BOUNDS)
  const batches = await page
  const [{ oldest, next } = { oldest: null, next: 0 }] = await bounds
  // A batch id of the future is from before the database was restored.
  if (from.batch >= next) return fromNow(connection, true)
  const gap = from.batch > 0 && from.batch < (oldest ?? 0)
  return { ...eventsAfter(batches, after!, { runId, limit }), gap }
}

const fromNow = async (connection: SqlRunner, gap: boolean): Promise<Page> => {
  const [newest] = await connection.run<{ batch: number; size: number }>(NEWEST)
  return { events: [], cursor: newest === undefined ? eventId(0, 0) : eventId(newest.batch, newest.size - 1), gap }
}

/** Deletes from the oldest batch up to the first young one; the newest batch stays. */
const TRIM = statement(
  "events_trim",
  `WITH old AS MATERIALIZED (
     SELECT batch, at < ${NOW} - :olderThanMs::bigint * interval '1 millisecond' AS old FROM events
     WHERE batch < (SELECT max(batch) FROM events) ORDER BY batch LIMIT :limit::int
   ), deleted AS (
     DELETE FROM events WHERE batch <= (
       SELECT max(batch) FROM old WHERE batch < COALESCE((SELECT min(batch) FROM old WHERE NOT old), 9223372036854775807))
     RETURNING 1
   ) SELECT count(*)::int AS n FROM deleted`,
)

/** Deletes batches with transaction ids of the future: the database was restored into a younger server. */
const TRIM_FOREIGN = statement(
  "events_trim_foreign",
  "DELETE FROM events WHERE batch > (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint)",
)

const trimEvents = async (tx: Tx, { olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> => {
  const foreign = tx.run(TRIM_FOREIGN)
  const trimmed = tx.run<{ n: number }>(TRIM, { olderThanMs, limit })
  await foreign
  return (await trimmed)[0]!.n
}
