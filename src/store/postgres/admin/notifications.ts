// Notices that are owed: each a row until it has arrived.

import type { RunId } from "../../../core/model/ids.ts"
import type { NewNotification } from "../../../core/rules/notifications.ts"
import type { NotificationRow, NotificationStore } from "../../contract/notifications.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import type { StoreClock } from "../connection/store-clock.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

/** Notices of one run, due after so many milliseconds. */
export interface Owed {
  runId: RunId
  notices: readonly NewNotification[]
  afterMs?: number | undefined
}

const ADD = statement(
  "notices_add",
  `INSERT INTO notifications (run_id, kind, target, due_at)
   SELECT c.run_id, c.kind, c.target, COALESCE(:now::timestamptz, now()) + c.after * interval '1 millisecond'
   FROM unnest(:runIds::uuid[], :kinds::text[], :targets::int[], :delays::bigint[]) AS c (run_id, kind, target, after)`,
)

export const addNotices = async (tx: SqlRunner, now: string | null, owed: readonly Owed[]): Promise<void> => {
  const rows = owed.flatMap(({ runId, notices, afterMs = 0 }) => notices.map((notice) => ({ runId, afterMs, ...notice })))
  if (rows.length === 0) return
  await tx.run(ADD, {
    now,
    runIds: arrayParam(rows.map(({ runId }) => runId)),
    kinds: textArrayParam(rows.map(({ kind }) => kind)),
    targets: arrayParam(rows.map(({ target }) => target)),
    delays: arrayParam(rows.map(({ afterMs }) => afterMs)),
  })
}

const TAKE = statement(
  "notices_take",
  `WITH due AS (
     SELECT id FROM notifications WHERE due_at <= COALESCE(:now::timestamptz, now()) ORDER BY due_at, id LIMIT :limit FOR UPDATE SKIP LOCKED
   )
   UPDATE notifications n SET due_at = COALESCE(:now::timestamptz, now()) + :leaseMs::bigint * interval '1 millisecond', tries = n.tries + 1
   FROM due WHERE n.id = due.id RETURNING n.id, n.run_id AS "runId", n.kind, n.target, n.tries`,
)

const PUT_OFF = statement(
  "notices_put_off",
  `UPDATE notifications SET due_at = COALESCE(:now::timestamptz, now()) + :delayMs::bigint * interval '1 millisecond' WHERE id = :id`,
)

const REMOVE = statement("notices_remove", "DELETE FROM notifications WHERE id = ANY (:ids::bigint[])")

const NEXT = statement(
  "notices_next",
  `SELECT GREATEST(0, ceil(extract(epoch FROM due_at - COALESCE(:now::timestamptz, now())) * 1000))::float8 AS ms
   FROM notifications ORDER BY due_at LIMIT 1`,
)

export const noticeStore = (
  read: <T>(work: (session: SqlRunner) => Promise<T>) => Promise<T>,
  write: <T>(work: (tx: SqlRunner) => Promise<T>) => Promise<T>,
  clock: StoreClock,
): NotificationStore => ({
  claimNotifications: ({ limit, leaseMs }) =>
    write(async (tx) => {
      const taken = await tx.run<NotificationRow>(TAKE, { now: clock.now(), limit, leaseMs })
      return taken.toSorted((a, b) => a.id - b.id)
    }),
  postponeNotification: (id, delayMs) => write(async (tx) => void (await tx.run(PUT_OFF, { now: clock.now(), id, delayMs }))),
  removeNotifications: (ids) => write(async (tx) => void (await tx.run(REMOVE, { ids: arrayParam(ids) }))),
  nextNotificationMs: () =>
    read(async (session) => (await session.run<{ ms: number }>(NEXT, { now: clock.now() }))[0]?.ms ?? null),
})
