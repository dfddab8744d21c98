// Inserts new top-level task rows.

import type { NewRow } from "../../../core/model/row.ts"
import { limitText } from "../connection/limit-column.ts"
import type { Tx } from "../tx.ts"

/** The JSON list holds numbers only: SQLite parses the text of a nested value again for each `->>`. */
const INSERT = `
INSERT INTO tasks (run_seq, workflow_id, hook, path, status, kind, lane, priority, limits, node, upstream_pending)
SELECT ?1, ?2, ?3, '', 'pending', ?4, ?5, ?6, ?7, ?8 + key, value FROM json_each(?9)`

/**
 * Inserts consecutive rows that differ only in node and number of upstream tasks by one statement. Rows of a run get ids in the order of
 * their nodes, without gaps: batch-effects.ts finds downstream rows by it.
 */
export const insertRows = (tx: Tx, run: { seq: number; workflowId: number }, rows: readonly NewRow[], hook: boolean): void => {
  for (let first = 0; first < rows.length;) {
    const { node, kind, lane, priority, limits } = rows[first]!
    let next = first + 1
    while (next < rows.length && canShareStatement(rows[first]!, rows[next]!, next - first)) next++
    const text = limitText(limits.length === 0 ? [] : tx.limits.ensure(limits))
    const upstreamPending = JSON.stringify(rows.slice(first, next).map((row) => row.upstreamPending))
    tx.db.run(INSERT, run.seq, run.workflowId, hook ? 1 : 0, kind, lane, priority, text, node, upstreamPending)
    first = next
  }
}

const canShareStatement = (a: NewRow, b: NewRow, distance: number): boolean =>
  b.node === a.node + distance &&
  b.kind === a.kind &&
  b.lane === a.lane &&
  b.priority === a.priority &&
  b.limits.length === a.limits.length &&
  b.limits.every(({ key, cap }, i) => key === a.limits[i]!.key && cap === a.limits[i]!.cap)
