// Notices that are owed to others: recorded by the store in the transaction that ends or starts a run, sent by engine/services/notifier.ts,
// removed when they have arrived. So none is lost, and one may arrive twice.

import type { RunId } from "../../core/model/ids.ts"
import type { NewNotice } from "../../core/rules/notifications.ts"

export interface NoticeRow extends NewNotice {
  id: number
  runId: RunId
  /** Times that it was taken, this one counted. */
  tries: number
}

export interface NoticeStore {
  /** Notices that are due, earliest first. Each is out of everybody's reach for `leaseMs`, then due again. */
  takeNotices(query: { limit: number; leaseMs: number }): Promise<NoticeRow[]>
  /** Due again after that. */
  putOffNotice(id: number, delayMs: number): Promise<void>
  removeNotices(ids: readonly number[]): Promise<void>
  /** Milliseconds until the next one is due, or null. Reads one index entry. */
  nextNoticeMs(): Promise<number | null>
}
