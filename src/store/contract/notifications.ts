// Notices that are owed to others: recorded by the store in the transaction that ends or starts a run, sent by engine/services/notifier.ts,
// removed when they have arrived. So none is lost, and one may arrive twice.

import type { RunId } from "../../core/model/ids.ts"
import type { NewNotification } from "../../core/rules/notifications.ts"

export interface NotificationRow extends NewNotification {
  id: number
  runId: RunId
  /** Times that it was taken, this one counted. */
  tries: number
}

export interface NotificationStore {
  /** Notices that are due, earliest first. Each is out of everybody's reach for `leaseMs`, then due again. */
  claimNotifications(query: { limit: number; leaseMs: number }): Promise<NotificationRow[]>
  /** Due again after that. */
  postponeNotification(id: number, delayMs: number): Promise<void>
  removeNotifications(ids: readonly number[]): Promise<void>
  /** Milliseconds until the next one is due, or null. Reads one index entry. */
  nextNotificationMs(): Promise<number | null>
}
