// Indexes of the search for jobs that the end of a job does not write to. Completing a job changes no indexed column, so that Postgres
// updates the row within its page and writes no index entry. `insert_jobs` takes values that all jobs share once.

/** Notes the seconds in which completed jobs were created. Servers of earlier versions complete jobs too, hence a trigger. */
const MARK_COMPLETED = `
CREATE FUNCTION mark_completed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO completed_seconds (list, priority, second)
  SELECT l.list, c.priority, c.second FROM (
    SELECT DISTINCT name, queue, priority, date_trunc('second', created_at) AS second FROM written WHERE status = 'COMPLETED'
  ) c CROSS JOIN LATERAL (VALUES ('n:' || c.name), ('q:' || c.queue)) l (list)
  WHERE NOT EXISTS (SELECT 1 FROM completed_seconds s WHERE s.list = l.list AND s.priority = c.priority AND s.second = c.second)
  GROUP BY l.list, c.priority, c.second ORDER BY l.list, c.priority, c.second
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER mark_completed AFTER UPDATE ON jobs REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION mark_completed();
`

/** A column of the new job `n`: an array of one element stands for all of them. Postgres reads and copies it once. */
const COLUMN = (name: string): string => `COALESCE(n.${name}, shared_${name})`

const SHARED = {
  name: ["text", 2],
  queue: ["text", 3],
  lane: ["text", 4],
  priority: ["smallint", 5],
  status: ["text", 6],
  row_status: ["text", 7],
  upstream_pending: ["int", 8],
  retry_policy: ["text", 12],
  task: ["text", 13],
  payload: ["text", 14],
  group_id: ["bigint", 15],
} as const

const DECLARATIONS = Object.entries(SHARED)
  .map(([name, [type, n]]) => `  shared_${name} ${type} := CASE WHEN cardinality($${n}) = 1 THEN $${n}[1] END;`)
  .join("\n")

const IS_READY_OR_DELAYED = `${COLUMN("row_status")} = 'pending' AND ${COLUMN("upstream_pending")} = 0`

/** As in 014-insert-jobs.ts, apart from shared values. */
const INSERT_JOBS = `
CREATE OR REPLACE FUNCTION insert_jobs(uuid[], text[], text[], text[], smallint[], text[], text[], int[], text[], text[], text[], text[], text[],
  text[], bigint[], timestamptz[], bigint[], text[], text[], bigint[], text[], timestamptz)
RETURNS TABLE (new_row bigint, new_id uuid, new_at timestamptz, new_available_at timestamptz) LANGUAGE plpgsql AS $$
DECLARE
  numbers regclass := pg_get_serial_sequence('tasks', 'id');
  begun timestamptz(3) := COALESCE($22, now());
${DECLARATIONS}
BEGIN
  RETURN QUERY WITH new AS MATERIALIZED (
    SELECT nextval(numbers) AS task_id, n.*, CASE WHEN ${COLUMN("row_status")} = 'skipped' THEN NULL WHEN n.due_at > begun THEN n.due_at
        WHEN n.limits = '{}' THEN begun END AS available_at
    FROM (
      SELECT c.*, COALESCE(c.run_at, begun + c.delay_ms * interval '1 millisecond')::timestamptz(3) AS due_at
      FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
      AS c (id, name, queue, lane, priority, status, row_status, upstream_pending, limits, error, concurrency_key, retry_policy, task,
        payload, group_id, run_at, delay_ms, key, settings, expires_ms, created_by)
    ) n
  ), row AS (
    INSERT INTO tasks (id, run_seq, workflow_id, node, path, kind, status, upstream_pending, lane, priority, limits, error, finished_at,
      available_at, item) OVERRIDING SYSTEM VALUE
    SELECT n.task_id, 0, ${COLUMN("group_id")}, 0, n.id::text, 'task', ${COLUMN("row_status")}, ${COLUMN("upstream_pending")},
      ${COLUMN("lane")}, ${COLUMN("priority")}, n.limits::bigint[], n.error, CASE WHEN ${COLUMN("row_status")} = 'skipped' THEN begun END,
      n.available_at, ${COLUMN("name")}
    FROM new n
  ), enqueued AS (
    INSERT INTO ready_queue (lane, priority, workflow_id, run_seq, id)
    SELECT ${COLUMN("lane")}, ${COLUMN("priority")}, ${COLUMN("group_id")}, 0, n.task_id FROM new n
    WHERE ${IS_READY_OR_DELAYED} AND n.available_at IS NULL
  ), expiring AS (
    INSERT INTO deadlines (task_id, at)
    SELECT n.task_id, COALESCE(n.available_at, begun) + n.expires_ms * interval '1 millisecond' FROM new n
    WHERE n.expires_ms IS NOT NULL AND ${IS_READY_OR_DELAYED}
  ), inserted AS (
    INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload,
      key, settings, expires_ms, created_by)
    SELECT n.task_id, n.id, ${COLUMN("name")}, ${COLUMN("queue")}, ${COLUMN("priority")}, ${COLUMN("status")}, begun, begun,
      n.concurrency_key, ${COLUMN("retry_policy")}, ${COLUMN("task")}, ${COLUMN("payload")}, n.key, n.settings, n.expires_ms, n.created_by
    FROM new n
  )
  SELECT n.task_id, n.id, begun, n.available_at FROM new n;
END $$;
`

export const JOB_SEARCH = `
DROP INDEX jobs_by_status;
DROP INDEX jobs_of_name_by_status;
DROP INDEX jobs_of_queue_by_status;

-- listed_status: the status, if an index lists jobs by it. Room in each page for the second version of its rows.
ALTER TABLE jobs SET (fillfactor = 50);
ALTER TABLE jobs ADD COLUMN listed_status text COLLATE "C"
  GENERATED ALWAYS AS (CASE WHEN status IN ('PENDING', 'FAILED', 'BLOCKED') THEN status END) STORED;
CREATE INDEX jobs_of_name ON jobs (name, priority, created_at DESC, id);
CREATE INDEX jobs_of_queue ON jobs (queue, priority, created_at DESC, id);
CREATE INDEX jobs_of_name_by_status ON jobs (name, listed_status, priority, created_at DESC, id) WHERE listed_status IS NOT NULL;
CREATE INDEX jobs_of_queue_by_status ON jobs (queue, listed_status, priority, created_at DESC, id) WHERE listed_status IS NOT NULL;

-- Seconds in which jobs were created of which at least one is COMPLETED: a search for these skips a backlog of READY jobs.
-- list: n: and the name, q: and the queue.
CREATE TABLE completed_seconds (
  list text COLLATE "C" NOT NULL,
  priority smallint NOT NULL,
  second timestamptz(0) NOT NULL,
  PRIMARY KEY (list, priority, second)
);
INSERT INTO completed_seconds
SELECT DISTINCT l.list, j.priority, date_trunc('second', j.created_at)
FROM jobs j CROSS JOIN LATERAL (VALUES ('n:' || j.name), ('q:' || j.queue)) l (list) WHERE j.status = 'COMPLETED';
${MARK_COMPLETED}${INSERT_JOBS}`
