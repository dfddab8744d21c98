// Notifications that are due: each is a row until it was delivered.

import type { RunId } from "../../../core/model/ids.ts"
import type { DelayedNotification, NewNotification } from "../../../core/rules/runs/notifications.ts"
import { iso } from "../../../core/model/ports.ts"
import type { NotificationProblem, NotificationRow, NotificationStore } from "../../contract/notifications.ts"
import type { Access, Tx } from "../tx.ts"

const ADD = "INSERT INTO notifications (run_id, kind, target, node, path, due_at) VALUES (?, ?, ?, ?, ?, ?)"

/** Adds notifications of a run. They are due at once, or after their delay. */
export const addNotifications = (
  tx: Tx,
  runId: RunId,
  notifications: readonly (NewNotification | DelayedNotification)[],
): void => {
  for (const notification of notifications) {
    const { kind, target, node, path } = notification
    const dueAt = "afterMs" in notification ? tx.iso(tx.now + notification.afterMs) : tx.at
    tx.db.run(ADD, runId, kind, target, node, path, dueAt)
  }
}

const DUE = "SELECT id FROM notifications INDEXED BY notifications_due WHERE due_at <= ? ORDER BY due_at, id LIMIT ? + 0"

const CLAIM = `
UPDATE notifications SET due_at = ?, tries = tries + 1 WHERE id = ?
RETURNING id, run_id AS "runId", kind, target, node, path, tries`

const claim = (tx: Tx, { limit, leaseMs }: { limit: number; leaseMs: number }): NotificationRow[] => {
  const until = tx.iso(tx.now + leaseMs)
  return tx.db.all<[number]>(DUE, tx.at, limit).map(([id]) => tx.db.find<NotificationRow>(CLAIM, until, id)!)
}

const POSTPONE = "UPDATE notifications SET due_at = ? WHERE id = ?"

const RECORD = `
INSERT INTO notification_problems (id, run_id, kind, target, node, path, tries, problem, at, gave_up)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET tries = excluded.tries, problem = excluded.problem, at = excluded.at, gave_up = excluded.gave_up`

const postpone = (tx: Tx, notification: NotificationRow, problem: string, delayMs: number | null): void => {
  const { id, runId, kind, target, node, path, tries } = notification
  if (delayMs === null) tx.db.run(REMOVE, id)
  else tx.db.run(POSTPONE, iso(tx.now + delayMs), id)
  tx.db.run(RECORD, id, runId, kind, target, node, path, tries, problem, tx.at, delayMs === null ? 1 : 0)
}

const REMOVE = "DELETE FROM notifications WHERE id = ?"

const REMOVE_PROBLEM = "DELETE FROM notification_problems WHERE id = ?"

const remove = (tx: Tx, ids: readonly number[]): void => {
  for (const id of ids) {
    tx.db.run(REMOVE, id)
    tx.db.run(REMOVE_PROBLEM, id)
  }
}

const PROBLEMS = `
SELECT id, run_id AS "runId", kind, target, node, path, tries, problem, at, gave_up AS "gaveUp"
FROM notification_problems INDEXED BY notification_problems_of_run WHERE run_id = ? ORDER BY id`

type ProblemColumns = Omit<NotificationProblem, "gaveUp"> & { gaveUp: number }

const NEXT = "SELECT due_at FROM notifications INDEXED BY notifications_due ORDER BY due_at LIMIT 1"

export const notificationStore = ({ read, write }: Access): NotificationStore => ({
  claimNotifications: (query) => write((tx) => claim(tx, query)),
  postponeNotification: (notification, problem, delayMs) => write((tx) => postpone(tx, notification, problem, delayMs)),
  removeNotifications: (ids) => write((tx) => remove(tx, ids)),
  notificationProblems: (runId) =>
    read(({ db }) => db.list<ProblemColumns>(PROBLEMS, runId).map((row) => ({ ...row, gaveUp: row.gaveUp === 1 }))),
  nextNotificationMs: () =>
    read(({ db, clock }) => {
      const next = db.get<[string]>(NEXT)
      return next === undefined ? null : Math.max(0, Date.parse(next[0]) - clock.now())
    }),
})
