// The columns that statements return for a claimed task row.

import type { AttemptId, RunId } from "../../../core/model/ids.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import type { CancelReason, RowKind } from "../../contract/store.ts"

const KEY = ["id", "run_seq", "node", "path", "lane", "kind", "parent_id", "workflow_id"]
const STATE = ["attempt", "priority", "item", "children_pending", "children_total"]
/** Counters that are mostly 0: returned as NULL then, which costs no bytes. */
const COUNTERS = [
  "failures",
  "losses",
  "upstream_failed",
  "upstream_unmet",
  "upstream_waived",
  "children_created",
  "children_failed",
]

/** The columns of the claimed row `t`. */
export const TASK_COLUMNS = [
  ...[...KEY, ...STATE].map((name) => `t.${name}`),
  ...COUNTERS.map((name) => `NULLIF(t.${name}, 0) AS ${name}`),
].join(", ")
export const TASK_COLUMN_NAMES = [...KEY, ...STATE, ...COUNTERS].join(", ")

/** TASK_COLUMNS, and from the candidate `k` what belongs to its run and its claim. */
export const CLAIM_COLUMNS = `${TASK_COLUMNS}, k.limits, k.run_id, k.version_id, k.generation, k.cancelling, k.run_status, k.run_error, k.paused, k.attempt_id, k.enqueued_here`

/** Returns the attempt id of the claim with that number in its batch, made from the parameter `attemptIdPrefix`. */
export const ATTEMPT_ID = (number: string): string =>
  `(left(:attemptIdPrefix::text, 32) || lpad(to_hex(${number}), 4, '0'))::uuid`

/** The columns of a job (`run_seq` 0) that belong to a run are null. */
export interface ClaimedRow {
  id: number
  run_seq: number
  node: number
  path: string
  lane: string
  kind: RowKind
  parent_id: number | null
  /** Includes this attempt when the row was claimed for work. */
  attempt: number
  /** Null means 0, here and in the other counters. */
  failures: number | null
  losses: number | null
  priority: number
  item: string | null
  upstream_failed: number | null
  upstream_unmet: number | null
  upstream_waived: number | null
  children_created: number | null
  children_pending: number | null
  children_failed: number | null
  limits: number[] | null
  workflow_id: number
  run_id: RunId
  version_id: number
  generation: number
  cancelling: CancelReason | null
  run_status: RunStatus
  run_error: string | null
  paused: boolean
  attempt_id: AttemptId
  children_total: number | null
  /** Whether the claiming transaction itself enqueued the row. */
  enqueued_here?: boolean | null
  /** The event that a resumed row waited for. */
  waiting_on?: string | null
  /** Number of times that it was resumed in this attempt. */
  resumes?: number
  /** Milliseconds since the attempt of a resumed row started. */
  elapsed?: number | null
  must_end?: boolean
}

/** Returns whether the row may be claimed without asking core `admit`: it is under no limit, and its run is not paused. */
export const needsNoAdmission = (row: ClaimedRow): boolean => row.limits === null && !row.paused
