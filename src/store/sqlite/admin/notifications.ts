// Notifications that are due: each is a row until it was delivered.

import type { RunId } from "../../../core/model/ids.ts"
import type { NewNotification } from "../../../core/rules/notifications.ts"
import { iso } from "../../../core/model/ports.ts"
import type { NotificationRow, NotificationStore } from "../../contract/notifications.ts"
import type { Access, Tx } from "../tx.ts"

const ADD = "INSERT INTO notifications (run_id, kind, target, due_at) VALUES (?, ?, ?, ?)"

export const addNotifications = (tx: Tx, runId: RunId, notifications: readonly NewNotification[], afterMs = 0): void => {
  for (const { kind, target } of notifications) tx.db.run(ADD, runId, kind, target, tx.iso(tx.now + afterMs))
}

const DUE = "SELECT id FROM notifications INDEXED BY notifications_due WHERE due_at <= ? ORDER BY due_at, id LIMIT ? + 0"

const CLAIM = `
UPDATE notifications SET due_at = ?, tries = tries + 1 WHERE id = ? RETURNING id, run_id AS "runId", kind, target, tries`

const claim = (tx: Tx, { limit, leaseMs }: { limit: number; leaseMs: number }): NotificationRow[] => {
  const until = tx.iso(tx.now + leaseMs)
  return tx.db.all<[number]>(DUE, tx.at, limit).map(([id]) => tx.db.find<NotificationRow>(CLAIM, until, id)!)
}

const POSTPONE = "UPDATE notifications SET due_at = ? WHERE id = ?"

const REMOVE = "DELETE FROM notifications WHERE id = ?"

const NEXT = "SELECT due_at FROM notifications INDEXED BY notifications_due ORDER BY due_at LIMIT 1"

export const notificationStore = ({ read, write }: Access): NotificationStore => ({
  claimNotifications: (query) => write((tx) => claim(tx, query)),
  postponeNotification: (id, delayMs) => write((tx) => void tx.db.run(POSTPONE, iso(tx.now + delayMs), id)),
  removeNotifications: (ids) => write((tx) => ids.forEach((id) => tx.db.run(REMOVE, id))),
  nextNotificationMs: () =>
    read(({ db, clock }) => {
      const next = db.get<[string]>(NEXT)
      return next === undefined ? null : Math.max(0, Date.parse(next[0]) - clock.now())
    }),
})
