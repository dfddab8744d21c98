// Removal of ended runs, in small transactions.

import type { RunId } from "../../../core/model/ids.ts"
import { Conflict } from "../../contract/errors.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const EXPIRED = statement(
  "runs_expired",
  `SELECT id FROM (
     SELECT id, finished_at, row_number() OVER (PARTITION BY workflow_id ORDER BY seq DESC) AS place
     FROM runs WHERE finished_at IS NOT NULL AND hooks_pending = 0
   ) r
   WHERE finished_at < COALESCE(:now::timestamptz, now()) - :age::bigint * interval '1 millisecond' OR place > :keep::bigint
   ORDER BY finished_at, id LIMIT :limit`,
)

const OLDER = statement(
  "runs_older",
  `SELECT id FROM runs WHERE finished_at < COALESCE(:now::timestamptz, now()) - :age::bigint * interval '1 millisecond'
     AND hooks_pending = 0
   ORDER BY finished_at, id LIMIT :limit`,
)

export const expiredRuns = async (
  session: SqlRunner,
  now: string | null,
  { olderThanMs, keep, limit }: { olderThanMs?: number; keep?: number; limit: number },
): Promise<RunId[]> => {
  const age = olderThanMs ?? null
  const rows =
    keep === undefined
      ? await session.run<{ id: RunId }>(OLDER, { now, age, limit })
      : await session.run<{ id: RunId }>(EXPIRED, { now, age, keep, limit })
  return rows.map(({ id }) => id)
}

const RUN = statement(
  "remove_find",
  "SELECT seq, finished_at IS NOT NULL AND hooks_pending = 0 AS ended FROM runs WHERE id = :runId::uuid FOR UPDATE",
)

const REMOVE_TASKS = statement(
  "remove_tasks",
  `WITH gone AS (
     DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE run_seq = :seq LIMIT :maxRows) RETURNING id
   ), forgotten AS (
     DELETE FROM attempts a USING gone g WHERE a.task_id = g.id
   )
   SELECT count(*)::int AS gone FROM gone`,
)

const REMOVE_LIMITS = statement(
  "remove_limits",
  "DELETE FROM limits WHERE key = 'r:' || :runId::text OR key >= 't:' || :runId::text || ':' AND key < 't:' || :runId::text || ';'",
)

const REMOVE_RUN = statement("remove_run", "DELETE FROM runs WHERE seq = :seq")

export const removeRun = async (tx: SqlRunner, runId: RunId, maxRows: number): Promise<boolean> => {
  const [run] = await tx.run<{ seq: number; ended: boolean }>(RUN, { runId })
  if (run === undefined) return true
  if (!run.ended) throw new Conflict(`run ${runId} has not ended: cancel it and wait for it and its hooks before removing it`)
  const [removed] = await tx.run<{ gone: number }>(REMOVE_TASKS, { seq: run.seq, maxRows })
  if (removed!.gone === maxRows) return false
  await tx.run(REMOVE_LIMITS, { runId })
  await tx.run(REMOVE_RUN, { seq: run.seq })
  return true
}
