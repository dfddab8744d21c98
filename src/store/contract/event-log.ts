// The event log. The store writes the events of each transaction as one row, which is kept for an hour. Streams resume from it on
// any server.

import type { RunId } from "../../core/model/ids.ts"
import type { StoreEvent } from "./store.ts"

/** `id`: `<batch>.<index>`, in commit order. */
export type LoggedEvent = StoreEvent & { id: string }

export interface EventLog {
  /**
   * Reads events after `after` in commit order; null: events committed from now on. `cursor`: where the next call continues.
   * `gap`: events after `after` were trimmed. Postgres returns a batch only when no older transaction is open.
   */
  readEvents(query: {
    after: string | null
    runId?: RunId
    limit: number
  }): Promise<{ events: LoggedEvent[]; cursor: string; gap: boolean }>
  /** Deletes at most `limit` batches that are older. Returns how many. */
  trimEvents(query: { olderThanMs: number; limit: number }): Promise<number>
}
