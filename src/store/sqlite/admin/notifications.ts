// Notices that are owed: each a row until it has arrived.

import type { RunId } from "../../../core/model/ids.ts"
import type { NewNotification, NotificationKind } from "../../../core/rules/notifications.ts"
import { iso } from "../../../core/model/ports.ts"
import type { NotificationRow, NotificationStore } from "../../contract/notifications.ts"
import type { Access, Tx } from "../connection/tx.ts"

const ADD = "INSERT INTO notifications (run_id, kind, target, due_at) VALUES (?, ?, ?, ?)"

export const addNotifications = (tx: Tx, runId: RunId, notices: readonly NewNotification[], afterMs = 0): void => {
  for (const { kind, target } of notices) tx.db.run(ADD, runId, kind, target, tx.iso(tx.now + afterMs))
}

const DUE = "SELECT id FROM notifications INDEXED BY notifications_due WHERE due_at <= ? ORDER BY due_at, id LIMIT ? + 0"

const TAKE = "UPDATE notifications SET due_at = ?, tries = tries + 1 WHERE id = ? RETURNING run_id, kind, target, tries"

const take = (tx: Tx, { limit, leaseMs }: { limit: number; leaseMs: number }): NotificationRow[] =>
  tx.db.all<[number]>(DUE, tx.at, limit).map(([id]) => {
    const [runId, kind, target, tries] = tx.db.get<[RunId, NotificationKind, number, number]>(
      TAKE,
      tx.iso(tx.now + leaseMs),
      id,
    )!
    return { id, runId, kind, target, tries }
  })

const PUT_OFF = "UPDATE notifications SET due_at = ? WHERE id = ?"

const REMOVE = "DELETE FROM notifications WHERE id = ?"

const NEXT = "SELECT due_at FROM notifications INDEXED BY notifications_due ORDER BY due_at LIMIT 1"

export const noticeStore = ({ read, write }: Access): NotificationStore => ({
  claimNotifications: (query) => write((tx) => take(tx, query)),
  postponeNotification: (id, delayMs) => write((tx) => void tx.db.run(PUT_OFF, iso(tx.now + delayMs), id)),
  removeNotifications: (ids) => write((tx) => ids.forEach((id) => tx.db.run(REMOVE, id))),
  nextNotificationMs: () =>
    read(({ db, clock }) => {
      const next = db.get<[string]>(NEXT)
      return next === undefined ? null : Math.max(0, Date.parse(next[0]) - clock.now())
    }),
})
