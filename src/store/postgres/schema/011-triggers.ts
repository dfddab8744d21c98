// Triggers: runs that start after successful runs of other workflows, and what caused them.

export const TRIGGERS = `
-- JSON: what the trigger that created the run created it for; NULL: no trigger did.
ALTER TABLE runs ADD COLUMN cause text;

-- problem: why the trigger created no run the last time that it was to create one.
CREATE TABLE triggers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workflow_id bigint NOT NULL,
  version_id bigint NOT NULL,
  position integer NOT NULL,
  spec text NOT NULL,
  active boolean NOT NULL,
  problem text,
  UNIQUE (workflow_id, position)
);

-- The workflows, by name, whose successes a trigger waits for.
CREATE TABLE trigger_upstreams (
  upstream text NOT NULL,
  trigger_id bigint NOT NULL,
  PRIMARY KEY (upstream, trigger_id)
);
CREATE INDEX trigger_upstreams_of_trigger ON trigger_upstreams (trigger_id);

-- Successful runs for which triggers have not created a run yet.
CREATE TABLE trigger_successes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  trigger_id bigint NOT NULL,
  upstream text NOT NULL,
  run_id uuid NOT NULL,
  logical_date text,
  timezone text
);
CREATE INDEX trigger_successes_of_trigger ON trigger_successes (trigger_id, id);
`
