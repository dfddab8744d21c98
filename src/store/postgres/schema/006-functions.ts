// Steps and signals of durable functions.

export const FUNCTIONS = `
-- resume_requests: number of signals and ended children of the row, NULL for none.
ALTER TABLE tasks ADD COLUMN resume_requests int;

-- occurrence: counts the steps of one name in a function, from 0. details: JSON.
CREATE TABLE steps (
  task_id bigint NOT NULL,
  name text NOT NULL,
  occurrence int NOT NULL,
  kind text NOT NULL,
  state text NOT NULL CHECK (state IN ('waiting', 'success', 'failed')),
  failures int NOT NULL,
  output text,
  output_key text,
  output_bytes bigint,
  error text,
  details text NOT NULL,
  started_at timestamptz(3) NOT NULL,
  finished_at timestamptz(3),
  PRIMARY KEY (task_id, name, occurrence)
);

CREATE TABLE signals (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task_id bigint NOT NULL,
  name text NOT NULL,
  key text,
  payload text NOT NULL,
  sent_at timestamptz(3) NOT NULL
);
CREATE INDEX signals_of_task ON signals (task_id, id);
CREATE UNIQUE INDEX signals_key ON signals (task_id, name, key) WHERE key IS NOT NULL;
`
