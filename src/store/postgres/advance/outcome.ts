// The end of a row: what is known of it, what it makes of the row, and what came of the ends of a batch.

import type { AttemptId } from "../../../core/model/ids.ts"
import type { AttemptState, SkipReason, TaskEnd } from "../../../core/model/status.ts"
import type { OutputColumns } from "../../shared/codec.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import type { InFlightAttempt } from "../cache/cache.ts"
import type { QueueLimit } from "../claim/queue-limits.ts"

/** A row that ends, and what it looks like then. */
export interface End {
  held: InFlightAttempt
  /** gate, container: pending under the gate's claim. live: dispatched or running. */
  from: "gate" | "container" | "live"
  status: TaskEnd
  skip: SkipReason | null
  outcome: AttemptState | null
  output: OutputColumns
  error: string | null
  exitCode: number | null
  usage: string | null
  externalId: string | null
  startedAt: number | null
  /** null: now. */
  finishedAt: number | null
}

export interface Settled {
  ended: Set<AttemptId>
  /** Runs in which nothing is open any more. */
  done: number[]
  /** Rows that became ready, and wait for a claim. */
  ready: number
  /** Some of them for the gate. */
  gates: boolean
  /** The limits of the queues that were asked for. */
  queues: QueueLimit[]
  /** Groups that ended under limits; those that were opened held slots of them. */
  groups: { limits: number[]; opened: boolean }[]
  /** What became ready and was taken at once (onward.ts). */
  onward: ClaimedRow[]
}

/** What is said of every row that ended, from its change `c`. */
export const OUTCOME = `output = c.output, output_key = c.output_key, output_bytes = c.output_bytes, exit_code = c.exit_code,
       usage = c.usage, external_id = COALESCE(c.external_id, t.external_id),
       started_at = COALESCE(to_timestamp(c.started_at / 1000.0::float8), t.started_at),
       finished_at = COALESCE(to_timestamp(c.finished_at / 1000.0::float8), $1::timestamptz, now()), holder = NULL, waiting_on = NULL,
       resume_at = NULL, cancel_requested = false, parked = NULL, inner_run = NULL`

/** The limits of the queues `keys`, of which slots are free now. */
export const QUEUES = (keys: string): string =>
  `(SELECT json_agg(json_build_object('id', id, 'key', key)) FROM limits WHERE key = ANY (${keys}::text[]))`
