// The log of what was committed: each transaction that has events writes them as one batch row, kept for an hour. Streams
// resume from it on any server. Written by the store itself inside advance, createRuns, retryRun and the verbs of jobs.

import type { RunId } from "../../core/model/ids.ts"
import type { StoreEvent } from "./store.ts"

/** `id` is `<batch>.<place>`: resumable, in commit order. */
export type LoggedEvent = StoreEvent & { id: string }

export interface EventLog {
  /**
   * Events after `after` in commit order; null begins with what is committed from now on. `cursor` is where the next call goes
   * on. `gap`: some after `after` are no longer kept. On Postgres a batch is only read when no older transaction is open.
   */
  readEvents(query: {
    after: string | null
    runId?: RunId
    limit: number
  }): Promise<{ events: LoggedEvent[]; cursor: string; gap: boolean }>
  /** At most `limit` batches older than that. */
  trimEvents(query: { olderThanMs: number; limit: number }): Promise<number>
}
