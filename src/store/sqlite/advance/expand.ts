// Creates the instances of a fan-out, tasks or groups. Instances beyond the free slots of a limit are inserted parked, so that a
// claim does not read 100,000 instances under a limit of 4 one by one.
//
// Instances of an earlier expansion, before a retry of the run, are reset in place. Those beyond the new total are deleted.

import type { Change } from "../../../core/model/change.ts"
import { isGroup } from "../../../core/model/task-path.ts"
import { readyUnderLimits } from "../../../core/rules/claims/slots.ts"
import { instancePath, toJson } from "../../shared/codec.ts"
import { countChunk, isNextChunk, type StatusCount, uncount } from "./container.ts"
import { limitText } from "../connection/limit-column.ts"
import type { BatchEffects } from "./batch-effects.ts"
import { CHILDLESS, FORGET_TRANSACTIONS_WHERE, RESET_COLUMNS, SUPERSEDE_WHERE } from "../runs/reset.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import { nodeOf } from "../cache/workflows.ts"
import type { Tx } from "../tx.ts"

type Expand = Extract<Change, { kind: "expand" }>

const INSERT = `
INSERT INTO tasks (run_seq, workflow_id, hook, node, kind, parent_id, lane, priority, limits, status, upstream_pending, path, parked, item, label)
SELECT ?1, ?2, ?3, ?4, ?14, ?5, ?6, ?7, ?8, 'pending', 0, ?9 || (CAST(?10 AS INTEGER) + key), iif(key < ?11, NULL, ?12),
  value ->> 0, nullif(concat_ws(' / ', (SELECT label FROM tasks WHERE id = ?5), value ->> 1), '')
FROM json_each(?13) WHERE true ORDER BY key
ON CONFLICT (run_seq, node, path) DO UPDATE SET ${RESET_COLUMNS}, ${CHILDLESS}, parent_id = excluded.parent_id, lane = excluded.lane,
  priority = excluded.priority, limits = excluded.limits, item = excluded.item, label = excluded.label,
  parked = excluded.parked`

export const expand = (tx: Tx, effects: BatchEffects, row: LoadedRow, change: Expand): boolean => {
  const { offset, items } = change
  if (!isNextChunk(row, change, items.length)) return false

  const prefix = instancePath(row.path, 0).slice(0, -1)
  const limits = tx.limits.ensure(change.limits)
  const { ready, parkedUnder } = readyUnderLimits(limits, (id) => tx.limits.state(id), items.length)
  const isTask = !isGroup(nodeOf(tx, row))
  const chunk = { prefix, offset, length: items.length }
  const reset = exists(tx, row, prefix + offset) ? supersede(tx, effects, row, chunk) : 0
  tx.db.run(
    INSERT,
    row.runSeq,
    row.workflowId,
    row.hook ? 1 : 0,
    row.node,
    row.id,
    change.lane,
    change.priority,
    limitText(limits),
    prefix,
    offset,
    ready,
    parkedUnder,
    JSON.stringify(items.map((item, i) => [toJson(item), change.labels?.[i] ?? null])),
    isTask ? "task" : "group",
  )
  if (isTask && !row.hook) effects.runDelta(row.runSeq).total += items.length - reset
  if (countChunk(tx, row, change, items.length)) deleteChildren(tx, effects, row, change.total)
  return true
}

const EXISTS = "SELECT 1 FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

const exists = (tx: Tx, row: LoadedRow, path: string): boolean => tx.db.get(EXISTS, row.runSeq, row.node, path) !== undefined

/** Condition: instances ?4 to ?4 + ?5 - 1 with the path prefix ?3. */
const OLD = `run_seq = ?1 AND node = ?2 AND path IN (
  WITH RECURSIVE indexes(i) AS (SELECT CAST(?4 AS INTEGER) UNION ALL SELECT i + 1 FROM indexes WHERE i + 1 < ?4 + ?5) SELECT ?3 || i FROM indexes)`

const SUPERSEDE_OLD = `${SUPERSEDE_WHERE} ${OLD}`

const FORGET_TRANSACTIONS = `${FORGET_TRANSACTIONS_WHERE} ${OLD})`

const COUNT_OLD = `SELECT status, count(*) FROM tasks WHERE ${OLD} AND kind = 'task' GROUP BY status`

/** Moves attempts of an earlier expansion to the history and uncounts its instances. Returns how many were counted. */
const supersede = (
  tx: Tx,
  effects: BatchEffects,
  row: LoadedRow,
  { prefix, offset, length }: { prefix: string; offset: number; length: number },
): number => {
  const instances = [row.runSeq, row.node, prefix, offset, length] as const
  tx.db.run(SUPERSEDE_OLD, ...instances)
  tx.db.run(FORGET_TRANSACTIONS, ...instances)
  return uncount(effects, row, tx.db.all<StatusCount>(COUNT_OLD, ...instances))
}

/** Children of ?1, and everything below them. ?2, ?3: only instances whose index, at position ?2 of the path, is at least ?3. */
const TO_DELETE = `
WITH RECURSIVE superfluous(id) AS (
  SELECT id FROM tasks WHERE parent_id = ?1 AND (?2 IS NULL OR CAST(substr(path, ?2) AS INTEGER) >= ?3)
  UNION ALL SELECT t.id FROM superfluous s CROSS JOIN tasks t INDEXED BY tasks_children ON t.parent_id = s.id
)`

const COUNT_TO_DELETE = `${TO_DELETE}
SELECT status, count(*) FROM superfluous s CROSS JOIN tasks t ON t.id = s.id WHERE t.kind = 'task' GROUP BY status`

const DELETE_ATTEMPTS = `${TO_DELETE} DELETE FROM attempts WHERE task_id IN (SELECT id FROM superfluous)`

const DELETE_STEPS = `${TO_DELETE} DELETE FROM steps WHERE task_id IN (SELECT id FROM superfluous)`

const DELETE = `${TO_DELETE} DELETE FROM tasks WHERE id IN (SELECT id FROM superfluous)`

const CHILD = "SELECT 1 FROM tasks WHERE parent_id = ? LIMIT 1"

/** Deletes children of an earlier, longer expansion from instance `from` on, or all rows of an earlier opening of a group. */
export const deleteChildren = (tx: Tx, effects: BatchEffects, row: LoadedRow, from: number): void => {
  const prefix = instancePath(row.path, 0).slice(0, -1)
  const hasChildren = row.kind === "fan" ? exists(tx, row, prefix + from) : tx.db.get(CHILD, row.id) !== undefined
  if (!hasChildren) return
  const superfluous = [row.id, row.kind === "fan" ? prefix.length + 1 : null, from] as const
  const counted = uncount(effects, row, tx.db.all<StatusCount>(COUNT_TO_DELETE, ...superfluous))
  if (!row.hook) effects.runDelta(row.runSeq).total -= counted
  tx.db.run(DELETE_ATTEMPTS, ...superfluous)
  tx.db.run(DELETE_STEPS, ...superfluous)
  tx.db.run(DELETE, ...superfluous)
}
