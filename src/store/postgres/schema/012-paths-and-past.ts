// Triggers on files and objects: since when a workflow takes those that fit a pattern, and which it has taken. Runs that wait for the
// success of an earlier one.

export const PATHS_AND_PAST = `
-- The run stays pending until this one has succeeded.
ALTER TABLE runs ADD COLUMN previous_run uuid;
CREATE INDEX runs_after_previous ON runs (previous_run) WHERE previous_run IS NOT NULL AND status IN ('pending', 'running');

CREATE TABLE trigger_paths (
  workflow_id bigint NOT NULL,
  pattern text NOT NULL,
  since timestamptz(3) NOT NULL,
  PRIMARY KEY (workflow_id, pattern)
);

-- version: names the content. run_id: the run that it caused; NULL if its params did not fit.
CREATE TABLE trigger_files (
  workflow_id bigint NOT NULL,
  pattern text NOT NULL,
  path text NOT NULL,
  version text NOT NULL,
  run_id uuid,
  PRIMARY KEY (workflow_id, pattern, path, version)
);
`
