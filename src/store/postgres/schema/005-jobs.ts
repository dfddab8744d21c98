// Keys, settings and expiry of jobs, and the indexes of their search.

export const JOBS = `
-- key: unique per name. settings: JSON object of the fields that differ from their default (store/shared/job-rows.ts), NULL for none.
-- The row of deadlines of a job that expires holds when it fails, unless it has started.
ALTER TABLE jobs ADD COLUMN key text;
ALTER TABLE jobs ADD COLUMN settings text;
ALTER TABLE jobs ADD COLUMN expires_ms bigint;
CREATE UNIQUE INDEX jobs_key ON jobs (name, key) WHERE key IS NOT NULL;

-- A search without a status reads a page per status: two indexes less to write for every job.
CREATE INDEX jobs_of_name_by_status ON jobs (name, status, priority, created_at DESC, id);
DROP INDEX jobs_created;
DROP INDEX jobs_of_queue;

-- A claim does not write to jobs: a job is RUNNING while its row of tasks is in flight. The column item of that row is the name of the
-- job, for its events.
UPDATE jobs SET status = 'READY' WHERE status = 'RUNNING';
UPDATE tasks SET item = (SELECT j.name FROM jobs j WHERE j.task_id = tasks.id) WHERE run_seq = 0;
`
