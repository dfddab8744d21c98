// Steps and signals of durable functions.

export const FUNCTIONS = `
-- resume_requests: number of signals and ended children of the row, NULL for none.
ALTER TABLE tasks ADD COLUMN resume_requests INTEGER;

-- occurrence: counts the steps of one name in a function, from 0. details: JSON.
CREATE TABLE steps (
  task_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  occurrence INTEGER NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'success' OR state = 'failed'),
  failures INTEGER NOT NULL,
  output TEXT,
  output_key TEXT,
  output_bytes INTEGER,
  error TEXT,
  details TEXT NOT NULL,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  PRIMARY KEY (task_id, name, occurrence)
) STRICT, WITHOUT ROWID;

CREATE TABLE signals (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  task_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  key TEXT,
  payload TEXT NOT NULL,
  sent_at TEXT NOT NULL
) STRICT;
CREATE INDEX signals_of_task ON signals (task_id, id);
CREATE UNIQUE INDEX signals_key ON signals (task_id, name, key) WHERE key IS NOT NULL;
`
