// A row that was taken, by whatever statement: what leaves of it.

import type { AttemptId, RunId } from "../../../core/model/ids.ts"
import type { RunStatus } from "../../../core/model/status.ts"
import type { CancelReason, RowKind } from "../../contract/store.ts"

/** 0 mostly: NULL then, so that nobody has to write and read it. */
const COUNTS = [
  "failures",
  "losses",
  "upstream_failed",
  "upstream_unmet",
  "upstream_waived",
  "children_created",
  "children_failed",
]
const PLACE = ["id", "run_seq", "node", "path", "lane", "kind", "parent_id", "workflow_id"]
const STATE = ["attempt", "priority", "item", "children_pending", "children_total"]

/** What leaves of a row `t`, and the names of that. */
export const CLAIMED_ROW = [
  ...[...PLACE, ...STATE].map((name) => `t.${name}`),
  ...COUNTS.map((name) => `NULLIF(t.${name}, 0) AS ${name}`),
].join(", ")
export const CLAIMED_NAMES = [...PLACE, ...STATE, ...COUNTS].join(", ")

/** With what was chosen with it as `k`. */
export const CLAIMED = `${CLAIMED_ROW}, k.limits, k.run_id, k.version_id, k.generation, k.cancelling, k.run_status, k.run_error, k.paused, k.new_id, k.fresh`

/** The id of the attempt with that place in its batch. */
export const NEW_ID = (place: string, ids: string): string => `(left(${ids}, 32) || lpad(to_hex(${place}), 4, '0'))::uuid`

/** In milliseconds. */
export const MS = (instant: string): string => `(date_part('epoch', ${instant}::timestamptz(3)) * 1000)::bigint`

/** Of a job (`run_seq` 0) all that is its run's is null. */
export interface ClaimedRow {
  id: number
  run_seq: number
  node: number
  path: string
  lane: string
  kind: RowKind
  parent_id: number | null
  /** With this one, for rows that were taken for work. */
  attempt: number
  /** null, here and below: 0. */
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
  new_id: AttemptId
  children_total: number | null
  /** This transaction itself had listed it. */
  fresh?: boolean | null
  /** Of a woken row: what it waited for, and the milliseconds since its attempt began. */
  waiting_on?: string | null
  elapsed?: number | null
  cancel_requested?: boolean
}

/** It waits for nothing but its turn. */
export const isFree = (row: ClaimedRow): boolean => row.limits === null && !row.paused
