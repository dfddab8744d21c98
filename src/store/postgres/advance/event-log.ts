// The log of events: written as part of each transaction that has some, read by streams, trimmed by age.
//
// A batch has the number of its transaction. Readers see only batches below every open transaction (of the whole server, other
// databases too), so none can appear behind their back; a long one elsewhere delays streams, and loses nothing.

import type { RunId } from "../../../core/model/ids.ts"
import { MAX_BATCHES } from "../../shared/bounds.ts"
import { decodeEvents, encodeEvents, eventId, parseEventId } from "../../shared/event-codec.ts"
import type { EventLog, LoggedEvent } from "../../contract/event-log.ts"
import type { StoreEvent } from "../../contract/store.ts"
import type { Access } from "../connection/access.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

export const eventLog = ({ read, write, clock }: Access): EventLog => ({
  readEvents: (query) => read((session) => readEvents(session, query)),
  trimEvents: (query) => write((tx) => trimEvents(tx, clock.now(), query)),
})

const APPEND = statement(
  "events_append",
  "INSERT INTO events (at, size, runs, events) VALUES (COALESCE($1::timestamptz, now()), $2, $3, $4)",
)

/** Once a transaction, at its end. Sends its statement at once. */
export const logEvents = (tx: SqlRunner, now: string | null, events: readonly StoreEvent[]): Promise<unknown> => {
  if (events.length === 0) return Promise.resolve()
  const { runs, text } = encodeEvents(events)
  return tx.run(APPEND, [now, events.length, JSON.stringify(runs), text])
}

const COMPLETE = "batch < (SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"

const NEWEST = statement("events_newest", `SELECT batch, size FROM events WHERE ${COMPLETE} ORDER BY batch DESC LIMIT 1`)

/** Read after the page: what was trimmed meanwhile is a gap. */
const BOUNDS = statement(
  "events_bounds",
  `SELECT (SELECT min(batch) FROM events) AS oldest, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next`,
)

const PAGE = statement(
  "events_page",
  `SELECT batch, size, at, runs, CASE WHEN $3::text IS NULL OR strpos(runs, $3) > 0 THEN events END AS events
   FROM events WHERE batch >= $1::bigint AND ${COMPLETE} ORDER BY batch LIMIT $2::int`,
)

interface Batch {
  batch: number
  size: number
  at: string
  runs: string
  /** null: not of the run that was asked for. */
  events: string | null
}

type Page = Awaited<ReturnType<EventLog["readEvents"]>>

/** Looks at `MAX_BATCHES` at most; the cursor then stands behind what was looked at, found or not. */
const readEvents = async (
  session: SqlRunner,
  { after, runId, limit }: { after: string | null; runId?: RunId; limit: number },
): Promise<Page> => {
  const from = after === null ? null : parseEventId(after)
  if (from === null) return fromNow(session, after !== null)
  const page = session.run<Batch>(PAGE, [from.batch, MAX_BATCHES, runId ?? null])
  const bounds = session.run<{ oldest: number | null; next: number }>(BOUNDS)
  const batches = await page
  const [{ oldest, next } = { oldest: null, next: 0 }] = await bounds
  // A number that is yet to come is from before the database was restored.
  if (from.batch >= next) return fromNow(session, true)
  const gap = from.batch > 0 && from.batch < (oldest ?? 0)
  const events: LoggedEvent[] = []
  let cursor = after!
  for (const { batch, size, at, runs, events: text } of batches) {
    const first = batch === from.batch ? from.place + 1 : 0
    if (first < size && text !== null) {
      const told = decodeEvents(JSON.parse(runs) as RunId[], text, at)
      for (let place = first; place < size; place++) {
        const event = told[place]!
        if (runId !== undefined && event.runId !== runId) continue
        events.push({ ...event, id: eventId(batch, place) })
        if (events.length === limit) return { events, cursor: eventId(batch, place), gap }
      }
    }
    if (first < size) cursor = eventId(batch, size - 1)
  }
  return { events, cursor, gap }
}

const fromNow = async (session: SqlRunner, gap: boolean): Promise<Page> => {
  const [newest] = await session.run<{ batch: number; size: number }>(NEWEST)
  return { events: [], cursor: newest === undefined ? eventId(0, 0) : eventId(newest.batch, newest.size - 1), gap }
}

/** From the oldest on, up to the first that is young; the newest stays. */
const TRIM = statement(
  "events_trim",
  `WITH old AS MATERIALIZED (
     SELECT batch, at < COALESCE($1::timestamptz, now()) - $2::bigint * interval '1 millisecond' AS old FROM events
     WHERE batch < (SELECT max(batch) FROM events) ORDER BY batch LIMIT $3::int
   ), gone AS (
     DELETE FROM events WHERE batch <= (
       SELECT max(batch) FROM old WHERE batch < COALESCE((SELECT min(batch) FROM old WHERE NOT old), 9223372036854775807))
     RETURNING 1
   ) SELECT count(*)::int AS gone FROM gone`,
)

/** Numbers of transactions that are yet to come: the database was restored into a younger server. */
const TRIM_FOREIGN = statement(
  "events_trim_foreign",
  "DELETE FROM events WHERE batch > (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint)",
)

const trimEvents = async (
  tx: SqlRunner,
  now: string | null,
  { olderThanMs, limit }: { olderThanMs: number; limit: number },
): Promise<number> => {
  const foreign = tx.run(TRIM_FOREIGN)
  const trimmed = tx.run<{ gone: number }>(TRIM, [now, olderThanMs, limit])
  await foreign
  return (await trimmed)[0]!.gone
}
