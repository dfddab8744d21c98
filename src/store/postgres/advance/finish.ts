// The finish of a task row: the state that it ends in, and the outcome of finishing the rows of a batch.

import type { AttemptId } from "../../../core/model/ids.ts"
import type { AttemptState, SkipReason, FinalStatus } from "../../../core/model/status.ts"
import { type OutputColumns, outputColumns } from "../../shared/codec.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import type { QueueLimit } from "../claim/queue-limits.ts"
import { NOW } from "../connection/store-clock.ts"
import type { AttemptChanges, LastChange } from "./coalesce-changes.ts"

/** A row to be finished, and its final columns. */
export interface Finish {
  inFlight: CachedAttempt
  /** gate, container: pending, under the gate's claim. in_flight: dispatched or running. */
  from: "gate" | "container" | "in_flight"
  status: FinalStatus
  skip: SkipReason | null
  attemptState: AttemptState | null
  output: OutputColumns
  error: string | null
  exitCode: number | null
  usage: string | null
  externalId: string | null
  startedAt: number | null
  /** Null means now. */
  finishedAt: number | null
}

export interface FinishResult {
  finished: ReadonlySet<AttemptId>
  /** Runs without open tasks. */
  closableRuns: number[]
  /** Number of rows that were enqueued. */
  ready: number
  /** Whether some of them are for the gate. */
  gateReady: boolean
  /** Limits of the queues whose slots are freed. */
  queueLimits: QueueLimit[]
  /** Groups under limits that finished; `opened` ones used slots. */
  groups: { limits: number[]; opened: boolean }[]
  /** Rows that were claimed by the statement that unblocked them. */
  claimedOnUnblock: ClaimedRow[]
  /** Whether ready rows remain that the request for unblocked rows would have claimed. */
  claimable: boolean
}

export const NOTHING_FINISHED: FinishResult = {
  finished: new Set(),
  closableRuns: [],
  ready: 0,
  gateReady: false,
  queueLimits: [],
  groups: [],
  claimedOnUnblock: [],
  claimable: false,
}

/** Assignments of every finished row `t`, from its change `c`. */
export const RESULT_COLUMNS = `output = c.output, output_key = c.output_key, output_bytes = c.output_bytes, exit_code = c.exit_code,
       usage = c.usage, external_id = COALESCE(c.external_id, t.external_id),
       started_at = COALESCE(t.started_at, to_timestamp(c.started_at / 1000.0::float8)),
       finished_at = COALESCE(to_timestamp(c.finished_at / 1000.0::float8), ${NOW}), holder = NULL, waiting_on = NULL,
       resume_at = NULL, must_end = false, parked = NULL, inner_run = NULL`

/** Returns the parameters for RESULT_COLUMNS and the fence. */
export const finishParams = (finishes: readonly Finish[]) => ({
  rows: finishes.map(({ inFlight }) => inFlight.row),
  attempts: finishes.map(({ inFlight }) => inFlight.attemptId),
  outputs: finishes.map(({ output }) => output[0]),
  outputKeys: finishes.map(({ output }) => output[1]),
  outputBytes: finishes.map(({ output }) => output[2]),
  exitCodes: finishes.map(({ exitCode }) => exitCode),
  usages: finishes.map(({ usage }) => usage),
  externalIds: finishes.map(({ externalId }) => externalId),
  startedAts: finishes.map(({ startedAt }) => startedAt),
  finishedAts: finishes.map(({ finishedAt }) => finishedAt),
})

/** The limits with the keys `freedLimitKeys`: the finished rows free slots of them. */
export const FREED_QUEUE_LIMITS =
  "(SELECT json_agg(json_build_object('id', id, 'key', key)) FROM limits WHERE key = ANY (:freedLimitKeys::text[]))"

const NO_OUTPUT: OutputColumns = [null, null, null]

/** Returns the finish that a change stands for; null: the change does not finish the row. */
export const toFinish = (inFlight: CachedAttempt, changes: AttemptChanges, change: LastChange): Finish | null => {
  const atGate = {
    inFlight,
    from: "gate",
    skip: null,
    attemptState: null,
    exitCode: null,
    usage: null,
    externalId: null,
    startedAt: null,
    finishedAt: null,
  } as const
  switch (change.kind) {
    case "finish": {
      const { result } = change
      return {
        inFlight,
        from: "in_flight",
        status: change.status,
        skip: null,
        attemptState: result.state,
        output: outputColumns(result.output),
        error: result.error ?? null,
        exitCode: result.exitCode ?? null,
        usage: result.usage === undefined ? null : JSON.stringify(result.usage),
        externalId: result.externalId ?? changes.start?.externalId ?? null,
        startedAt: result.startedAt ?? changes.start?.at ?? null,
        finishedAt: result.finishedAt,
      }
    }
    case "skip":
      return { ...atGate, status: "skipped", skip: change.skipReason, output: NO_OUTPUT, error: change.reason }
    case "fail":
      return { ...atGate, status: "failed", output: NO_OUTPUT, error: change.error }
    case "reuse":
      return { ...atGate, status: "success", output: outputColumns(change.output), error: null }
    case "gather": {
      const { status, output, error } = change
      return { ...atGate, from: "container", status, output: outputColumns(output), error: error ?? null }
    }
    case "retry":
    case "wait":
    case "enqueue":
    case "release":
    case "requeue":
      return null
    default:
      return change satisfies never
  }
}
