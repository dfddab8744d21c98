// Inserts new top-level task rows: the initial rows of runs, and hooks. Runs with the same version, priority and `private` share one
// statement, which replaces a placeholder in the planned rows by the id of each run.

import type { RunId } from "../../../core/model/ids.ts"
import type { NewRow } from "../../../core/model/row.ts"
import { textArrayParam } from "../connection/array-params.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

/** Run id of planned rows. In their lanes, `insertRows` replaces it by the root run's id; in their limit keys, by the run's id. */
export const RUN_ID_PLACEHOLDER = "00000000-0000-0000-0000-000000000000" as RunId

const LIMITS = statement(
  "rows_limits",
  `INSERT INTO limits (key, cap) SELECT replace(l.key, '${RUN_ID_PLACEHOLDER}', r.id), l.cap
   FROM unnest(:ids::text[]) AS r (id) CROSS JOIN unnest(:keys::text[], :caps::int[]) AS l (key, cap) ORDER BY 1
   ON CONFLICT (key) DO NOTHING`,
)

const ROWS = statement(
  "rows_insert",
  `WITH inserted AS (
     INSERT INTO tasks (run_seq, workflow_id, hook, path, node, kind, upstream_pending, lane, priority, limits)
     SELECT r.seq, :workflowId::bigint, :hook::boolean, '', t.node, t.kind, t.upstream_pending,
       replace(t.lane, '${RUN_ID_PLACEHOLDER}', r.root_run_id), t.priority,
       CASE WHEN t.keys IS NOT NULL THEN ARRAY(
         SELECT l.id FROM unnest(t.keys::text[]) WITH ORDINALITY AS k (key, position)
         JOIN limits l ON l.key = replace(k.key, '${RUN_ID_PLACEHOLDER}', r.id) ORDER BY k.position) END
     FROM unnest(:seqs::bigint[], :ids::text[], :rootRunIds::text[]) AS r (seq, id, root_run_id)
     CROSS JOIN unnest(:nodes::int[], :kinds::text[], :pendingCounts::int[], :lanes::text[], :priorities::smallint[], :keys::text[])
       WITH ORDINALITY AS t (node, kind, upstream_pending, lane, priority, keys, position)
     ORDER BY r.seq, t.position RETURNING ${READINESS("tasks")}
   )
   ${insertInto("ready_queue", "inserted")}`,
)

/** Sends its statements before it returns. `rows` were planned for the run id RUN_ID_PLACEHOLDER. */
export const insertRows = async (
  tx: SqlRunner,
  runs: readonly { seq: number; id: string; rootRunId: string | null }[],
  workflowId: number,
  rows: readonly NewRow[],
  hook: boolean,
): Promise<void> => {
  if (runs.length === 0 || rows.length === 0) return
  const limits = new Map(rows.flatMap((row) => row.limits).map((limit) => [limit.key, limit]))
  const ids = runs.map((run) => run.id)
  const caps = [...limits.values()]
  const created =
    caps.length === 0 ? null : tx.run(LIMITS, { ids, keys: caps.map(({ key }) => key), caps: caps.map(({ cap }) => cap) })
  const inserted = tx.run(ROWS, {
    seqs: runs.map((run) => run.seq),
    ids,
    workflowId,
    hook,
    nodes: rows.map((row) => row.node),
    kinds: rows.map((row) => row.kind),
    pendingCounts: rows.map((row) => row.upstreamPending),
    lanes: rows.map((row) => row.lane),
    priorities: rows.map((row) => row.priority),
    keys: rows.map((row) => (row.limits.length === 0 ? null : textArrayParam(row.limits.map(({ key }) => key)))),
    rootRunIds: runs.map((run) => run.rootRunId ?? run.id),
  })
  await created
  await inserted
}
