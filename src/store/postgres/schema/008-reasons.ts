// Reasons that users ask for: why a tick created no run, and why a notification did not arrive.

export const REASONS = `
-- skipped: why the tick created no run, NULL if it created one.
ALTER TABLE ticks ADD COLUMN skipped text;
CREATE INDEX ticks_skipped ON ticks (workflow_id, schedule, tick_at) WHERE skipped IS NOT NULL;

-- Notifications that could not be delivered, by their ids. gave_up: Ork does not try again.
CREATE TABLE notification_problems (
  id bigint PRIMARY KEY,
  run_id uuid NOT NULL,
  kind text NOT NULL,
  target integer NOT NULL,
  tries integer NOT NULL,
  problem text NOT NULL,
  at timestamptz(3) NOT NULL,
  gave_up boolean NOT NULL
);
CREATE INDEX notification_problems_of_run ON notification_problems (run_id);
`
