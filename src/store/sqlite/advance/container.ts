// Creation of a container's children, for fan-outs and groups: in chunks under the container's fence. After the last chunk the
// container waits for its children.

import type { Change } from "../../../core/model/change.ts"
import { gateLane } from "../../../core/routing/lanes.ts"
import { type TaskStatus, isTaskFinished } from "../../../core/model/status.ts"
import { startGroupTimeout } from "./group-timeouts.ts"
import { emitTask } from "./events.ts"
import { type BatchEffects, COUNTER } from "./batch-effects.ts"
import type { LoadedRow } from "../cache/load-rows.ts"
import type { Tx } from "../tx.ts"

type Chunk = Pick<Extract<Change, { kind: "expand" | "open_group" }>, "total" | "offset" | "attemptId">

/** Returns whether this chunk is the next one of the container. */
export const isNextChunk = (row: LoadedRow, { total, offset }: Chunk, length: number): boolean =>
  row.childrenCreated === offset && length > 0 && offset + length <= total && (offset === 0 || row.childrenTotal === total)

const FIRST_CHUNK =
  "UPDATE tasks SET children_total = ?1, children_pending = ?1, children_failed = 0, started_at = ?2 WHERE id = ?3"

const CHUNK = "UPDATE tasks SET children_created = ? WHERE id = ? AND attempt_id = ?"

const LAST_CHUNK = `
UPDATE tasks SET children_created = ?1, status = iif(children_pending = 0, 'pending', 'running'), lane = ?2, attempt_id = NULL, holder = NULL
WHERE id = ?3 AND attempt_id = ?4`

/** Counts a chunk that was inserted. Returns whether it was the last one. */
export const countChunk = (tx: Tx, row: LoadedRow, { total, offset, attemptId }: Chunk, length: number): boolean => {
  if (offset === 0) tx.db.run(FIRST_CHUNK, total, tx.at, row.id)
  row.childrenTotal = total
  row.childrenCreated = offset + length
  if (row.childrenCreated < total) {
    tx.db.run(CHUNK, row.childrenCreated, row.id, attemptId)
    return false
  }
  tx.db.run(LAST_CHUNK, row.childrenCreated, gateLane(tx.runs.get(row.runSeq)), row.id, attemptId)
  startContainer(tx, row, total)
  return true
}

/** Starts the timeout and emits the start of a container that waits for its children. */
export const startContainer = (tx: Tx, row: LoadedRow, total: number): void => {
  row.status = "running"
  row.attemptId = null
  startGroupTimeout(tx, row)
  emitTask(tx, row, { status: "running", at: tx.at, attempt: row.attempt, ...(row.kind === "fan" && { total }) })
}

export type StatusCount = [status: TaskStatus, count: number]

/** Subtracts tasks from the counters of the run. Returns how many there are. */
export const uncount = (effects: BatchEffects, row: LoadedRow, counts: readonly StatusCount[]): number => {
  let all = 0
  for (const [status, count] of counts) {
    all += count
    if (!row.hook && isTaskFinished(status)) effects.runDelta(row.runSeq)[COUNTER[status]] -= count
  }
  return all
}
