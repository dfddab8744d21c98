// Notifications to deliver: each is a row until it was delivered.

import type { RunId } from "../../../core/model/ids.ts"
import type { DelayedNotification, NewNotification } from "../../../core/rules/runs/notifications.ts"
import type { NotificationProblem, NotificationRow, NotificationStore } from "../../contract/notifications.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Access } from "../tx.ts"

/** Notifications of one run. They are due at once, or after their delay. */
export interface NewNotifications {
  runId: RunId
  notifications: readonly (NewNotification | DelayedNotification)[]
}

const ADD = statement(
  "notifications_add",
  `INSERT INTO notifications (run_id, kind, target, node, path, due_at)
   SELECT c.run_id, c.kind, c.target, c.node, c.path, ${NOW} + c.after * interval '1 millisecond'
   FROM unnest(:runIds::uuid[], :kinds::text[], :targets::int[], :nodes::int[], :paths::text[], :delays::bigint[])
   AS c (run_id, kind, target, node, path, after)`,
)

export const addNotifications = async (tx: SqlRunner, runs: readonly NewNotifications[]): Promise<void> => {
  const rows = runs.flatMap(({ runId, notifications }) =>
    notifications.map((notification) => ({ runId, afterMs: 0, ...notification })),
  )
  if (rows.length === 0) return
  await tx.run(ADD, {
    runIds: rows.map(({ runId }) => runId),
    kinds: rows.map(({ kind }) => kind),
    targets: rows.map(({ target }) => target),
    nodes: rows.map(({ node }) => node),
    paths: rows.map(({ path }) => path),
    delays: rows.map(({ afterMs }) => afterMs),
  })
}

const CLAIM = statement(
  "notifications_claim",
  `WITH due AS (
     SELECT id FROM notifications WHERE due_at <= ${NOW} ORDER BY due_at, id LIMIT :limit FOR UPDATE SKIP LOCKED
   )
   UPDATE notifications n SET due_at = ${NOW} + :leaseMs::bigint * interval '1 millisecond', tries = n.tries + 1
   FROM due WHERE n.id = due.id RETURNING n.id, n.run_id AS "runId", n.kind, n.target, n.node, n.path, n.tries`,
)

const claim = async (tx: SqlRunner, { limit, leaseMs }: { limit: number; leaseMs: number }): Promise<NotificationRow[]> => {
  const claimed = await tx.run<NotificationRow>(CLAIM, { limit, leaseMs })
  return claimed.toSorted((a, b) => a.id - b.id)
}

const POSTPONE = statement(
  "notifications_postpone",
  `UPDATE notifications SET due_at = ${NOW} + :delayMs::bigint * interval '1 millisecond' WHERE id = :id`,
)

const RECORD = statement(
  "notification_problems_put",
  `INSERT INTO notification_problems (id, run_id, kind, target, node, path, tries, problem, at, gave_up)
   VALUES (:id::bigint, :runId::uuid, :kind, :target::int, :node::int, :path, :tries::int, :problem, ${NOW}, :gaveUp::boolean)
   ON CONFLICT (id) DO UPDATE SET tries = excluded.tries, problem = excluded.problem, at = excluded.at, gave_up = excluded.gave_up`,
)

const postpone = async (
  tx: SqlRunner,
  { id, runId, kind, target, node, path, tries }: NotificationRow,
  problem: string,
  delayMs: number | null,
): Promise<void> => {
  if (delayMs === null) await tx.run(REMOVE, { ids: [id] })
  else await tx.run(POSTPONE, { id, delayMs })
  await tx.run(RECORD, { id, runId, kind, target, node, path, tries, problem, gaveUp: delayMs === null })
}

const REMOVE = statement("notifications_remove", "DELETE FROM notifications WHERE id = ANY (:ids::bigint[])")

const REMOVE_PROBLEMS = statement(
  "notification_problems_remove",
  "DELETE FROM notification_problems WHERE id = ANY (:ids::bigint[])",
)

const PROBLEMS = statement(
  "notification_problems_list",
  `SELECT id, run_id AS "runId", kind, target, node, path, tries, problem, at, gave_up AS "gaveUp"
   FROM notification_problems WHERE run_id = :runId::uuid ORDER BY id`,
)

const NEXT = statement(
  "notifications_next",
  `SELECT GREATEST(0, ceil(extract(epoch FROM due_at - ${NOW}) * 1000))::float8 AS ms
   FROM notifications ORDER BY due_at LIMIT 1`,
)

export const notificationStore = ({ read, write }: Access): NotificationStore => ({
  claimNotifications: (query) => write((tx) => claim(tx, query)),
  postponeNotification: (notification, problem, delayMs) => write((tx) => postpone(tx, notification, problem, delayMs)),
  removeNotifications: (ids) =>
    write(async (tx) => {
      await tx.run(REMOVE, { ids })
      await tx.run(REMOVE_PROBLEMS, { ids })
    }),
  notificationProblems: (runId) => read((connection) => connection.run<NotificationProblem>(PROBLEMS, { runId })),
  nextNotificationMs: () => read(async (connection) => (await connection.run<{ ms: number }>(NEXT))[0]?.ms ?? null),
})
