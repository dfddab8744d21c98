// Parts of statements that finish rows: how the rows of the CTE `finished` (run_seq, parent_id, hook, kind, status, allowed_failure) count
// for their container and their run. The rule is core `countFinish`.

import { ENTRY, insertInto, READY } from "../claim/ready-queue.ts"

/** Core `countFinish`, summed up by container. */
export const CONTAINER_COUNTS = `SELECT parent_id, count(*)::int AS finished,
             (count(*) FILTER (WHERE status = 'failed' AND NOT allowed_failure OR status = 'cancelled'))::int AS failed
           FROM finished WHERE parent_id IS NOT NULL GROUP BY parent_id`

/** Core `countFinish`, summed up by run. */
export const RUN_COUNTS = `SELECT run_seq,
             (count(*) FILTER (WHERE parent_id IS NULL AND NOT hook))::int AS open_tasks,
             (count(*) FILTER (WHERE parent_id IS NULL AND NOT hook AND status = 'failed' AND NOT allowed_failure))::int AS failed,
             (count(*) FILTER (WHERE parent_id IS NULL AND hook))::int AS hooks,
             (count(*) FILTER (WHERE kind = 'task' AND NOT hook AND status = 'success'))::int AS tasks_success,
             (count(*) FILTER (WHERE kind = 'task' AND NOT hook AND status = 'failed'))::int AS tasks_failed,
             (count(*) FILTER (WHERE kind = 'task' AND NOT hook AND status = 'skipped'))::int AS tasks_skipped,
             (count(*) FILTER (WHERE kind = 'task' AND NOT hook AND status = 'cancelled'))::int AS tasks_cancelled
           FROM finished GROUP BY run_seq`

/**
 * The last child makes its container ready for the gate, which gathers. A container whose children are being created may be ready
 * before.
 */
export const COUNT_CONTAINERS = `containers AS (
     UPDATE tasks t SET children_pending = t.children_pending - e.finished, children_failed = t.children_failed + e.failed,
       status = CASE WHEN t.status = 'running' AND t.children_pending = e.finished THEN 'pending' ELSE t.status END
     FROM (${CONTAINER_COUNTS}) e
     WHERE t.id = e.parent_id
     RETURNING ${ENTRY("t")}, t.children_pending = 0 AND ${READY("t")} AS ready
   ), enqueued_containers AS (
     ${insertInto("ready_queue", "containers")}
   )`

export const COUNT_RUNS = `counted AS (
     UPDATE runs r SET open_tasks = r.open_tasks - e.open_tasks, failed = r.failed + e.failed, hooks_pending = r.hooks_pending - e.hooks,
       tasks_success = r.tasks_success + e.tasks_success, tasks_failed = r.tasks_failed + e.tasks_failed,
       tasks_skipped = r.tasks_skipped + e.tasks_skipped, tasks_cancelled = r.tasks_cancelled + e.tasks_cancelled
     FROM (${RUN_COUNTS}) e
     WHERE r.seq = e.run_seq
     RETURNING r.seq, r.open_tasks = 0 AND r.status = 'running' AS done
   )`
