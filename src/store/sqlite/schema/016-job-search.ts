// Indexes of the search for jobs. A READY job is in no index by status, so that its end writes one entry per index, and deletes none.

export const JOB_SEARCH = `
DROP INDEX jobs_by_status;
DROP INDEX jobs_of_name_by_status;
DROP INDEX jobs_of_queue_by_status;
CREATE INDEX jobs_of_name ON jobs (name, priority, created_at DESC, id);
CREATE INDEX jobs_of_queue ON jobs (queue, priority, created_at DESC, id);
CREATE INDEX jobs_of_name_by_status ON jobs (name, status, priority, created_at DESC, id) WHERE status <> 'READY';
CREATE INDEX jobs_of_queue_by_status ON jobs (queue, status, priority, created_at DESC, id) WHERE status <> 'READY';
`
