// `insert_jobs` looks up the sequence of `tasks` once for all jobs, and copies them once less.

/**
 * Inserts jobs without a conflict of keys. Numbers the rows itself: a join of the inserts would compare every job with every other one.
 * The limits of a job are '{}' while they are not created: the job then waits for a timer, which creates them outside of the user's
 * transaction (jobs/late-limits.ts).
 */
export const INSERT_JOBS = `
CREATE OR REPLACE FUNCTION insert_jobs(uuid[], text[], text[], text[], smallint[], text[], text[], int[], text[], text[], text[], text[], text[],
  text[], bigint[], timestamptz[], bigint[], text[], text[], bigint[], text[], timestamptz)
RETURNS TABLE (new_row bigint, new_id uuid, new_at timestamptz, new_available_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
  numbers regclass := pg_get_serial_sequence('tasks', 'id');
  begun timestamptz(3) := COALESCE($22, now());
BEGIN
  RETURN QUERY WITH new AS MATERIALIZED (
    SELECT nextval(numbers) AS task_id, g.*,
      CASE WHEN g.row_status = 'skipped' THEN NULL WHEN g.due_at > begun THEN g.due_at WHEN g.limits = '{}' THEN begun END AS available_at
    FROM (
      SELECT c.*, COALESCE(c.run_at, begun + c.delay_ms * interval '1 millisecond')::timestamptz(3) AS due_at
      FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
      AS c (id, name, queue, lane, priority, status, row_status, upstream_pending, limits, error, concurrency_key, retry_policy, task,
        payload, group_id, run_at, delay_ms, key, settings, expires_ms, created_by)
    ) g
  ), row AS (
    INSERT INTO tasks (id, run_seq, workflow_id, node, path, kind, status, upstream_pending, lane, priority, limits, error, finished_at,
      available_at, item) OVERRIDING SYSTEM VALUE
    SELECT n.task_id, 0, n.group_id, 0, n.id::text, 'task', n.row_status, n.upstream_pending, n.lane, n.priority, n.limits::bigint[],
      n.error, CASE WHEN n.row_status = 'skipped' THEN begun END, n.available_at, n.name
    FROM new n
  ), enqueued AS (
    INSERT INTO ready_queue (lane, priority, workflow_id, run_seq, id)
    SELECT n.lane, n.priority, n.group_id, 0, n.task_id FROM new n
    WHERE n.row_status = 'pending' AND n.upstream_pending = 0 AND n.available_at IS NULL
  ), expiring AS (
    INSERT INTO deadlines (task_id, at)
    SELECT n.task_id, COALESCE(n.available_at, begun) + n.expires_ms * interval '1 millisecond' FROM new n
    WHERE n.expires_ms IS NOT NULL AND n.row_status = 'pending' AND n.upstream_pending = 0
  ), inserted AS (
    INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload,
      key, settings, expires_ms, created_by)
    SELECT n.task_id, n.id, n.name, n.queue, n.priority, n.status, begun, begun, n.concurrency_key, n.retry_policy, n.task, n.payload,
      n.key, n.settings, n.expires_ms, n.created_by
    FROM new n
  )
  SELECT n.task_id, n.id, begun, n.available_at FROM new n;
END $$;
`
