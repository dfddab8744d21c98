// What people read: numbers of runs within their workflow, times without the breaks before retries, labels of instances, and activity.

export const READABLE_RUNS = `
-- last: number of the newest run of the workflow. It stays when runs are removed, so that no number is used twice.
CREATE TABLE run_numbers (
  workflow_id INTEGER PRIMARY KEY,
  last INTEGER NOT NULL
) STRICT;

-- number: 0 for runs that a server of an earlier version creates next to this one.
ALTER TABLE runs ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET number = n.number
FROM (SELECT seq, row_number() OVER (PARTITION BY workflow_id ORDER BY seq) AS number FROM runs) n WHERE n.seq = runs.seq;
INSERT INTO run_numbers SELECT workflow_id, max(number) FROM runs GROUP BY workflow_id;
CREATE UNIQUE INDEX runs_number ON runs (workflow_id, number) WHERE number > 0;

-- idle_ms: time between the end of the run and each of its retries.
ALTER TABLE runs ADD COLUMN idle_ms INTEGER NOT NULL DEFAULT 0;

-- label: of an instance of a fan-out, and of the rows below an instance of a group.
ALTER TABLE tasks ADD COLUMN label TEXT;

-- Activity of all servers in the last day. minute: since the epoch. ready, running: as last seen in it.
CREATE TABLE activity (
  minute INTEGER PRIMARY KEY,
  success INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  dispatch_p50_ms INTEGER,
  dispatch_p95_ms INTEGER,
  ready INTEGER,
  running INTEGER
) STRICT;
`
