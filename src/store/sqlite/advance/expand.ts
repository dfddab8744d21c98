// Instances of a fan-out, tasks or groups, made in chunks under the container's fence. What cannot get a slot is inserted parked, so that
// 100,000 instances under a limit of 4 are not looked at one by one.
//
// An earlier expansion (before a user's retry) left its instances: they are reset in place, and those beyond the new total go.

import type { Change } from "../../../core/model/change.ts"
import { isGroup } from "../../../core/model/task-path.ts"
import { instancePath, toJson } from "../../shared/codec.ts"
import { childrenMade, makesChildren, type StatusCount, uncount } from "./container.ts"
import { limitText } from "../claim/limits.ts"
import type { Effects } from "./unblock.ts"
import { CHILDLESS, FRESH, SUPERSEDE_WHERE } from "../runs/reset.ts"
import type { LoadedRow } from "../runs/insert-rows.ts"
import type { Tx } from "../connection/tx.ts"

type Expand = Extract<Change, { kind: "expand" }>

const INSERT = `
INSERT INTO tasks (run_seq, workflow_id, hook, node, kind, parent_id, lane, priority, limits, status, upstream_pending, path, item, parked)
SELECT ?1, ?2, ?3, ?4, ?14, ?5, ?6, ?7, ?8, 'pending', 0, ?9 || (CAST(?10 AS INTEGER) + key), value, iif(key < ?11, NULL, ?12)
FROM json_each(?13) WHERE true ORDER BY key
ON CONFLICT (run_seq, node, path) DO UPDATE SET ${FRESH}, ${CHILDLESS}, parent_id = excluded.parent_id, lane = excluded.lane,
  priority = excluded.priority, limits = excluded.limits, item = excluded.item, parked = excluded.parked`

export const expand = (tx: Tx, effects: Effects, row: LoadedRow, change: Expand): boolean => {
  const { offset, items } = change
  if (!makesChildren(row, change, items.length)) return false

  const prefix = instancePath(row.path, 0).slice(0, -1)
  const limits = tx.limits.ensure(change.limits)
  const { room, under } = smallestRoom(tx, limits, items.length)
  const values = JSON.stringify(items.map(toJson))
  const listed = !isGroup(tx.versions.get(tx.runs.get(row.runSeq).versionId).nodes[row.node]!)
  const reset = exists(tx, row, prefix + offset) ? supersede(tx, effects, row, prefix, offset, items.length) : 0
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
    room,
    under,
    values,
    listed ? "task" : "group",
  )
  if (listed && !row.hook) effects.run(row.runSeq).total += items.length - reset
  if (childrenMade(tx, row, change, items.length)) dropChildren(tx, effects, row, change.total)
  return true
}

/** How many of the new instances may be ready, and the limit under which the others wait. */
const smallestRoom = (tx: Tx, limits: readonly number[], wanted: number): { room: number; under: number | null } => {
  let room = wanted
  let under: number | null = null
  for (const id of limits) {
    const { cap, used } = tx.limits.state(id)
    const free = Math.max(0, cap - used)
    if (free < room) [room, under] = [free, id]
  }
  return { room, under }
}

const EXISTS = "SELECT 1 FROM tasks WHERE run_seq = ? AND node = ? AND path = ?"

const exists = (tx: Tx, row: LoadedRow, path: string): boolean => tx.db.get(EXISTS, row.runSeq, row.node, path) !== undefined

const OLD = `run_seq = ?1 AND node = ?2 AND path IN (
  WITH RECURSIVE places(i) AS (SELECT CAST(?4 AS INTEGER) UNION ALL SELECT i + 1 FROM places WHERE i + 1 < ?4 + ?5) SELECT ?3 || i FROM places)`

const SUPERSEDE_OLD = `${SUPERSEDE_WHERE} ${OLD}`

const COUNT_OLD = `SELECT status, count(*) FROM tasks WHERE ${OLD} AND kind = 'task' GROUP BY status`

/** Takes instances of an earlier expansion out of the run's counts and into history; returns how many of them were counted. */
const supersede = (tx: Tx, effects: Effects, row: LoadedRow, prefix: string, offset: number, length: number): number => {
  const place = [row.runSeq, row.node, prefix, offset, length] as const
  tx.db.run(SUPERSEDE_OLD, ...place)
  return uncount(effects, row, tx.db.all<StatusCount>(COUNT_OLD, ...place))
}

/** Children from index `from` on (of a group all), and whatever is below them. */
const GONE = `
WITH RECURSIVE gone(id) AS (
  SELECT id FROM tasks WHERE parent_id = ?1 AND (?2 IS NULL OR CAST(substr(path, ?2) AS INTEGER) >= ?3)
  UNION ALL SELECT t.id FROM gone g CROSS JOIN tasks t INDEXED BY tasks_children ON t.parent_id = g.id
)`

const COUNT_GONE = `${GONE}
SELECT status, count(*) FROM gone g CROSS JOIN tasks t ON t.id = g.id WHERE t.kind = 'task' GROUP BY status`

const DROP_ATTEMPTS = `${GONE} DELETE FROM attempts WHERE task_id IN (SELECT id FROM gone)`

const DROP = `${GONE} DELETE FROM tasks WHERE id IN (SELECT id FROM gone)`

const CHILD = "SELECT 1 FROM tasks WHERE parent_id = ? LIMIT 1"

/** Removes what an earlier, longer expansion or an earlier opening left, from instance `from` on. */
export const dropChildren = (tx: Tx, effects: Effects, row: LoadedRow, from: number): void => {
  const prefix = instancePath(row.path, 0).slice(0, -1)
  const left = row.kind === "fan" ? exists(tx, row, prefix + from) : tx.db.get(CHILD, row.id) !== undefined
  if (!left) return
  const gone = [row.id, row.kind === "fan" ? prefix.length + 1 : null, from] as const
  const dropped = uncount(effects, row, tx.db.all<StatusCount>(COUNT_GONE, ...gone))
  if (!row.hook) effects.run(row.runSeq).total -= dropped
  tx.db.run(DROP_ATTEMPTS, ...gone)
  tx.db.run(DROP, ...gone)
}
