// Triggers on files and objects: since when a workflow takes those that fit a pattern, and which it has taken. Runs that wait for the
// success of an earlier one.

export const PATHS_AND_PAST = `
-- The run stays pending until this one has succeeded.
ALTER TABLE runs ADD COLUMN previous_run TEXT;
CREATE INDEX runs_after_previous ON runs (previous_run) WHERE previous_run IS NOT NULL AND finished_at IS NULL;

CREATE TABLE trigger_paths (
  workflow_id INTEGER NOT NULL,
  pattern TEXT NOT NULL,
  since TEXT NOT NULL,
  PRIMARY KEY (workflow_id, pattern)
) STRICT, WITHOUT ROWID;

-- version: names the content. run_id: the run that it caused; NULL if its params did not fit.
CREATE TABLE trigger_files (
  workflow_id INTEGER NOT NULL,
  pattern TEXT NOT NULL,
  path TEXT NOT NULL,
  version TEXT NOT NULL,
  run_id TEXT,
  PRIMARY KEY (workflow_id, pattern, path, version)
) STRICT, WITHOUT ROWID;
`
