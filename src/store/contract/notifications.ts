// Notifications to deliver. The store records them in the transaction that starts or closes a run, or ends a task;
// engine/services/notifier.ts sends them and removes delivered ones. None is lost; one may be delivered twice.

import type { RunId } from "../../core/model/ids.ts"
import type { NewNotification } from "../../core/rules/runs/notifications.ts"

export interface NotificationRow extends NewNotification {
  id: number
  runId: RunId
  /** Number of deliveries tried, including this one. */
  tries: number
}

/** The last failed delivery of a notification. */
export interface NotificationProblem extends NotificationRow {
  problem: string
  at: string
  /** Ork does not try again. */
  gaveUp: boolean
}

export interface NotificationStore {
  /** Claims due notifications, earliest first. Each is due again after `leaseMs`. */
  claimNotifications(query: { limit: number; leaseMs: number }): Promise<NotificationRow[]>
  /** Records why a notification was not delivered, and makes it due again after the delay; null: removes it. */
  postponeNotification(notification: NotificationRow, problem: string, delayMs: number | null): Promise<void>
  /** Removes notifications that were delivered or are obsolete, with their problems. */
  removeNotifications(ids: readonly number[]): Promise<void>
  /** Lists the problems of the notifications of a run. */
  notificationProblems(runId: RunId): Promise<NotificationProblem[]>
  /** Returns the milliseconds until the next one is due, or null. Reads one index entry. */
  nextNotificationMs(): Promise<number | null>
}
