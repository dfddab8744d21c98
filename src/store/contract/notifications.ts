// Notifications to deliver. The store records them in the transaction that starts or closes a run; engine/services/notifier.ts sends
// them and removes delivered ones. None is lost; one may be delivered twice.

import type { RunId } from "../../core/model/ids.ts"
import type { NewNotification } from "../../core/rules/notifications.ts"

export interface NotificationRow extends NewNotification {
  id: number
  runId: RunId
  /** Number of deliveries tried, including this one. */
  tries: number
}

export interface NotificationStore {
  /** Claims due notifications, earliest first. Each is due again after `leaseMs`. */
  claimNotifications(query: { limit: number; leaseMs: number }): Promise<NotificationRow[]>
  /** Makes a notification due again after the delay. */
  postponeNotification(id: number, delayMs: number): Promise<void>
  removeNotifications(ids: readonly number[]): Promise<void>
  /** Returns the milliseconds until the next one is due, or null. Reads one index entry. */
  nextNotificationMs(): Promise<number | null>
}
