// Triggers: runs that start after successful runs of other workflows, and what caused them.

export const TRIGGERS = `
-- JSON: what the trigger that created the run created it for; NULL: no trigger did.
ALTER TABLE runs ADD COLUMN cause TEXT;

-- problem: why the trigger created no run the last time that it was to create one.
CREATE TABLE triggers (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workflow_id INTEGER NOT NULL,
  version_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  spec TEXT NOT NULL,
  active INTEGER NOT NULL,
  problem TEXT,
  UNIQUE (workflow_id, position)
) STRICT;

-- The workflows, by name, whose successes a trigger waits for.
CREATE TABLE trigger_upstreams (
  upstream TEXT NOT NULL,
  trigger_id INTEGER NOT NULL,
  PRIMARY KEY (upstream, trigger_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX trigger_upstreams_of_trigger ON trigger_upstreams (trigger_id);

-- Successful runs for which triggers have not created a run yet.
CREATE TABLE trigger_successes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  trigger_id INTEGER NOT NULL,
  upstream TEXT NOT NULL,
  run_id TEXT NOT NULL,
  logical_date TEXT,
  timezone TEXT
) STRICT;
CREATE INDEX trigger_successes_of_trigger ON trigger_successes (trigger_id, id);
`
