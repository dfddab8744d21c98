// New top-level rows: those that a run begins with, and the hooks of its end. Runs of one shape (version, priority, private)
// share one template, so that a thousand runs are one statement; their ids take the place of a stand-in.

import type { RunId } from "../../../core/model/ids.ts"
import type { NewRow } from "../../../core/model/row.ts"
import { arrayParam, textArrayParam } from "../connection/array-params.ts"
import { insertInto, READINESS } from "../claim/ready-queue.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

/** Stands for the run's id in lanes and keys of a template. */
export const STAND_IN = "00000000-0000-0000-0000-000000000000" as RunId

const LIMITS = statement(
  "rows_limits",
  `INSERT INTO limits (key, cap) SELECT replace(l.key, '${STAND_IN}', r.id), l.cap
   FROM unnest(:ids::text[]) AS r (id) CROSS JOIN unnest(:keys::text[], :caps::int[]) AS l (key, cap) ORDER BY 1
   ON CONFLICT (key) DO NOTHING`,
)

const ROWS = statement(
  "rows_insert",
  `WITH made AS (
     INSERT INTO tasks (run_seq, workflow_id, hook, path, node, kind, upstream_pending, lane, priority, limits)
     SELECT r.seq, :workflowId::bigint, :hook::boolean, '', t.node, t.kind, t.upstream_pending, replace(t.lane, '${STAND_IN}', r.root_run_id), t.priority,
       CASE WHEN t.keys IS NOT NULL THEN ARRAY(
         SELECT l.id FROM unnest(t.keys::text[]) WITH ORDINALITY AS k (key, n)
         JOIN limits l ON l.key = replace(k.key, '${STAND_IN}', r.id) ORDER BY k.n) END
     FROM unnest(:seqs::bigint[], :ids::text[], :rootRunIds::text[]) AS r (seq, id, root_run_id)
     CROSS JOIN unnest(:nodes::int[], :kinds::text[], :upstreamPendings::int[], :lanes::text[], :priorities::smallint[], :keys::text[])
       WITH ORDINALITY AS t (node, kind, upstream_pending, lane, priority, keys, n)
     ORDER BY r.seq, t.n RETURNING ${READINESS("tasks")}
   )
   ${insertInto("ready_queue", "made")}`,
)

/** Sends its statements at once. `rows` were planned for the run id STAND_IN. */
export const insertRows = async (
  tx: SqlRunner,
  runs: readonly { seq: number; id: string; rootRunId: string | null }[],
  workflowId: number,
  rows: readonly NewRow[],
  hook: boolean,
): Promise<void> => {
  if (runs.length === 0 || rows.length === 0) return
  const limits = new Map(rows.flatMap((row) => row.limits).map((limit) => [limit.key, limit]))
  const ids = textArrayParam(runs.map((run) => run.id))
  const caps = [...limits.values()]
  const made =
    caps.length === 0
      ? null
      : tx.run(LIMITS, { ids, keys: textArrayParam(caps.map(({ key }) => key)), caps: arrayParam(caps.map(({ cap }) => cap)) })
  const inserted = tx.run(ROWS, {
    seqs: arrayParam(runs.map((run) => run.seq)),
    ids,
    workflowId,
    hook,
    nodes: arrayParam(rows.map((row) => row.node)),
    kinds: arrayParam(rows.map((row) => row.kind)),
    upstreamPendings: arrayParam(rows.map((row) => row.upstreamPending)),
    lanes: textArrayParam(rows.map((row) => row.lane)),
    priorities: arrayParam(rows.map((row) => row.priority)),
    keys: textArrayParam(
      rows.map((row) => (row.limits.length === 0 ? null : textArrayParam(row.limits.map(({ key }) => key)))),
    ),
    rootRunIds: textArrayParam(runs.map((run) => run.rootRunId ?? run.id)),
  })
  await made
  await inserted
}
