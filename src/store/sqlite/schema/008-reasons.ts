// Reasons that users ask for: why a tick created no run, and why a notification did not arrive.

export const REASONS = `
-- skipped: why the tick created no run, NULL if it created one.
ALTER TABLE ticks ADD COLUMN skipped TEXT;
CREATE INDEX ticks_skipped ON ticks (workflow_id, schedule, tick_at) WHERE skipped IS NOT NULL;

-- Notifications that could not be delivered, by their ids. gave_up: Ork does not try again.
CREATE TABLE notification_problems (
  id INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  target INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  problem TEXT NOT NULL,
  at TEXT NOT NULL,
  gave_up INTEGER NOT NULL
) STRICT;
CREATE INDEX notification_problems_of_run ON notification_problems (run_id);
`
