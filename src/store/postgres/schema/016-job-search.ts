// Indexes of the search for jobs that the end of a job does not write to. Completing a job changes no indexed column, so that Postgres
// updates the row within its page and writes no index entry.

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
${MARK_COMPLETED}`
