// Creates the tasks of a group, in chunks at the group's path. The group takes its slots with the first chunk; while a limit is
// full, it is parked instead.
//
// Rows of an earlier opening, before a retry of the run, are reset in place. A change without rows continues a group that a retry
// keeps: its rows exist, parked until the group has its slots again.

import { PARKED_BY_GROUP } from "../../../core/rules/claims/admit.ts"
import type { Change } from "../../../core/model/change.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { firstFull } from "../../../core/rules/claims/slots.ts"
import { countChunk, isNextChunk, startContainer, type StatusCount, uncount } from "./container.ts"
import { limitText } from "../connection/limit-column.ts"
import type { BatchEffects } from "./batch-effects.ts"
import { CHILDLESS, FORGET_TRANSACTIONS_WHERE, RESET_COLUMNS, SUPERSEDE_WHERE } from "../runs/reset.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import type { Tx } from "../tx.ts"

type OpenGroup = Extract<Change, { kind: "open_group" }>

const INSERT = `
INSERT INTO tasks (run_seq, workflow_id, hook, parent_id, path, label, status, node, kind, upstream_pending, lane, priority, limits)
SELECT ?1, ?2, 0, ?3, ?4, (SELECT label FROM tasks WHERE id = ?3), 'pending', value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
FROM json_each(?5) WHERE true ORDER BY key
ON CONFLICT (run_seq, node, path) DO UPDATE SET ${RESET_COLUMNS}, ${CHILDLESS}, parked = NULL, parent_id = excluded.parent_id,
  upstream_pending = excluded.upstream_pending, upstream_failed = 0, upstream_unmet = 0, upstream_waived = 0, lane = excluded.lane,
  priority = excluded.priority, limits = excluded.limits, label = excluded.label`

export const openGroup = (tx: Tx, effects: BatchEffects, row: LoadedRow, change: OpenGroup): boolean => {
  const { offset, rows } = change
  if (rows.length === 0) return continueGroup(tx, row, change)
  if (!isNextChunk(row, change, rows.length)) return false
  if (offset === 0 && !takeSlots(tx, row, change)) return true
  const values = rows.map(({ node, kind, upstreamPending, lane, priority, limits }) => [
    node,
    kind,
    upstreamPending,
    lane,
    priority,
    limitText(limits.length === 0 ? [] : tx.limits.ensure(limits)),
  ])
  const reset = supersede(tx, effects, row, rows)
  tx.db.run(INSERT, row.runSeq, row.workflowId, row.id, row.path, JSON.stringify(values))
  effects.runDelta(row.runSeq).total += rows.filter(({ kind }) => kind === "task").length - reset
  countChunk(tx, row, change, rows.length)
  return true
}

/** Unparks the rows below a container, except finished ones and those below groups that wait for slots of their own. */
const UNPARK_BELOW = `
WITH RECURSIVE below (id, is_open) AS (
  SELECT id, kind <> 'task' AND started_at IS NOT NULL FROM tasks WHERE parent_id = ?1 AND finished_at IS NULL
  UNION ALL
  SELECT t.id, t.kind <> 'task' AND t.started_at IS NOT NULL
  FROM below b CROSS JOIN tasks t INDEXED BY tasks_children ON t.parent_id = b.id WHERE b.is_open AND t.finished_at IS NULL
)
UPDATE tasks SET parked = NULL WHERE id IN (SELECT id FROM below) AND parked = ${PARKED_BY_GROUP}`

const CONTINUE = `
UPDATE tasks SET started_at = ?1, status = iif(children_pending = 0, 'pending', 'running'), lane = ?2, attempt_id = NULL, holder = NULL
WHERE id = ?3 AND attempt_id = ?4`

const continueGroup = (tx: Tx, row: LoadedRow, change: OpenGroup): boolean => {
  if (
    row.hasStartTime ||
    row.childrenCreated === 0 ||
    row.childrenCreated !== change.total ||
    row.childrenTotal !== change.total
  )
    return false
  if (!takeSlots(tx, row, change)) return true
  tx.db.run(CONTINUE, tx.at, gateLane(tx.runs.get(row.runSeq)), row.id, change.attemptId)
  tx.db.run(UNPARK_BELOW, row.id)
  startContainer(tx, row, change.total)
  return true
}

const PARK = "UPDATE tasks SET parked = ?, attempt_id = NULL, holder = NULL WHERE id = ? AND attempt_id = ?"

/** Takes a slot of each limit. Parks the group and returns false while one is full. */
const takeSlots = (tx: Tx, row: LoadedRow, { limits, attemptId }: OpenGroup): boolean => {
  const ids = tx.limits.ensure(limits)
  const full = firstFull(ids, (id) => tx.limits.state(id))
  if (full === undefined) {
    for (const id of ids) tx.limits.use(id, 1)
    return true
  }
  tx.db.run(PARK, full, row.id, attemptId)
  row.attemptId = null
  return false
}

const EXISTS = "SELECT 1 FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

const OLD = "run_seq = ?1 AND path = ?2 AND node IN (SELECT value FROM json_each(?3))"

const SUPERSEDE_OLD = `${SUPERSEDE_WHERE} ${OLD}`

const FORGET_TRANSACTIONS = `${FORGET_TRANSACTIONS_WHERE} ${OLD})`

const COUNT_OLD = `SELECT status, count(*) FROM tasks WHERE ${OLD} AND kind = 'task' GROUP BY status`

/** Moves attempts of an earlier opening to the history and uncounts its tasks. Returns how many were counted. */
const supersede = (tx: Tx, effects: BatchEffects, row: LoadedRow, rows: OpenGroup["rows"]): number => {
  if (tx.db.get(EXISTS, row.runSeq, rows[0]!.node, row.path) === undefined) return 0
  const tasks = [row.runSeq, row.path, JSON.stringify(rows.map(({ node }) => node))] as const
  tx.db.run(SUPERSEDE_OLD, ...tasks)
  tx.db.run(FORGET_TRANSACTIONS, ...tasks)
  return uncount(effects, row, tx.db.all<StatusCount>(COUNT_OLD, ...tasks))
}
