// Instances of a fan-out, made in chunks under the container's fence. What cannot get a slot is inserted parked, so that
// 100,000 instances under a limit of 4 are not looked at one by one.
//
// An earlier expansion (before a user's retry) left its instances: they are reset in place, and those beyond the new total go.

import type { Change } from "../../core/change.ts"
import { gateLane } from "../../core/lanes.ts"
import type { TaskStatus } from "../../core/status.ts"
import { instancePath, toJson } from "../codec.ts"
import { tellTask } from "./events.ts"
import { limitText } from "./limits.ts"
import type { Effects } from "./release.ts"
import { FRESH, SUPERSEDE_WHERE } from "./reset.ts"
import type { LoadedRow } from "./rows.ts"
import type { Tx } from "./tx.ts"

type Expand = Extract<Change, { kind: "expand" }>

const INSERT = `
INSERT INTO tasks (run_seq, workflow_id, hook, node, kind, parent_id, lane, priority, limits, status, upstream_left, path, item, parked)
SELECT ?1, ?2, ?3, ?4, 'task', ?5, ?6, ?7, ?8, 'pending', 0, ?9 || (CAST(?10 AS INTEGER) + key), value, iif(key < ?11, NULL, ?12)
FROM json_each(?13) WHERE true ORDER BY key
ON CONFLICT (run_seq, node, path) DO UPDATE SET ${FRESH}, parent_id = excluded.parent_id, lane = excluded.lane,
  priority = excluded.priority, limits = excluded.limits, item = excluded.item, parked = excluded.parked`

export const expand = (tx: Tx, effects: Effects, row: LoadedRow, change: Expand): boolean => {
  const { total, offset, items } = change
  const end = offset + items.length
  const fits = row.expanded === offset && items.length > 0 && end <= total && (offset === 0 || row.childrenTotal === total)
  if (row.kind === "task" || !fits) return false

  const prefix = instancePath(row.path, 0).slice(0, -1)
  const limits = tx.limits.ensure(change.limits)
  const { room, under } = smallestRoom(tx, limits, items.length)
  const values = JSON.stringify(items.map(toJson))
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
  )
  if (!row.hook) effects.run(row.runSeq).total += items.length - reset
  advanceContainer(tx, effects, row, change, end)
  return true
}

const FIRST_CHUNK =
  "UPDATE tasks SET children_total = ?1, children_left = ?1, children_failed = 0, started_at = ?2 WHERE id = ?3"

const CHUNK = "UPDATE tasks SET expanded = ? WHERE id = ? AND attempt_id = ?"

const LAST_CHUNK = `
UPDATE tasks SET expanded = ?1, status = iif(children_left = 0, 'pending', 'running'), lane = ?2, attempt_id = NULL, holder = NULL
WHERE id = ?3 AND attempt_id = ?4`

const advanceContainer = (
  tx: Tx,
  effects: Effects,
  row: LoadedRow,
  { total, offset, attemptId }: Expand,
  end: number,
): void => {
  if (offset === 0) tx.db.run(FIRST_CHUNK, total, tx.at, row.id)
  row.childrenTotal = total
  row.expanded = end
  if (end < total) {
    tx.db.run(CHUNK, end, row.id, attemptId)
    return
  }
  dropInstances(tx, effects, row, total)
  tx.db.run(LAST_CHUNK, end, gateLane(tx.facts.get(row.runSeq)), row.id, attemptId)
  row.status = "running"
  row.attemptId = null
  tellTask(tx, row, { status: "running", at: tx.at, attempt: row.attempt, total })
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

const COUNT_OLD = `SELECT status, count(*) FROM tasks WHERE ${OLD} GROUP BY status`

/** Takes instances of an earlier expansion out of the run's counts and into history; returns how many there are. */
const supersede = (tx: Tx, effects: Effects, row: LoadedRow, prefix: string, offset: number, length: number): number => {
  const place = [row.runSeq, row.node, prefix, offset, length] as const
  tx.db.run(SUPERSEDE_OLD, ...place)
  return uncount(effects, row, tx.db.all<[TaskStatus, number]>(COUNT_OLD, ...place))
}

const COUNTED = { success: "success", failed: "taskFailed", skipped: "skipped", cancelled: "cancelled" } as const

const uncount = (effects: Effects, row: LoadedRow, counts: [TaskStatus, number][]): number => {
  let all = 0
  for (const [status, n] of counts) {
    all += n
    if (!row.hook && status in COUNTED) effects.run(row.runSeq)[COUNTED[status as keyof typeof COUNTED]] -= n
  }
  return all
}

const BEYOND = "parent_id = ?1 AND CAST(substr(path, ?2) AS INTEGER) >= ?3"

const COUNT_BEYOND = `SELECT status, count(*) FROM tasks WHERE ${BEYOND} GROUP BY status`

const DROP_ATTEMPTS = `DELETE FROM attempts WHERE task_id IN (SELECT id FROM tasks WHERE ${BEYOND})`

const DROP = `DELETE FROM tasks WHERE ${BEYOND}`

/** Removes instances `from` and above of an earlier, longer expansion. */
export const dropInstances = (tx: Tx, effects: Effects, row: LoadedRow, from: number): void => {
  const prefix = instancePath(row.path, 0).slice(0, -1)
  if (!exists(tx, row, prefix + from)) return
  const beyond = [row.id, prefix.length + 1, from] as const
  const dropped = uncount(effects, row, tx.db.all<[TaskStatus, number]>(COUNT_BEYOND, ...beyond))
  if (!row.hook) effects.run(row.runSeq).total -= dropped
  tx.db.run(DROP_ATTEMPTS, ...beyond)
  tx.db.run(DROP, ...beyond)
}
