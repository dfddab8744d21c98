CREATE TABLE activity (
  minute INTEGER PRIMARY KEY,
  success INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  dispatch_p50_ms INTEGER,
  dispatch_p95_ms INTEGER,
  ready INTEGER,
  running INTEGER
) STRICT;

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  created_at TEXT NOT NULL,
  last_used_at TEXT
, queues TEXT, expires_at TEXT, created_by TEXT, previous_hash TEXT, previous_until TEXT, workflows TEXT, tags TEXT) STRICT;

CREATE TABLE attempts (
  task_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  attempt_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'success' OR state = 'failed' OR state = 'timeout' OR state = 'lost' OR state = 'cancelled'),
  worker TEXT,
  external_id TEXT,
  exit_code INTEGER,
  error TEXT,
  usage TEXT,
  dispatched_at TEXT,
  started_at TEXT,
  finished_at TEXT,
  PRIMARY KEY (task_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at TEXT NOT NULL,
  key_id TEXT,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  details TEXT
, actor TEXT, address TEXT, result TEXT, hash TEXT, subject TEXT, request TEXT) STRICT;

CREATE UNIQUE INDEX audit_request ON audit (request) WHERE request IS NOT NULL;

CREATE INDEX audit_target ON audit (target, seq);

CREATE TABLE cache (
  workflow_id INTEGER NOT NULL,
  task TEXT NOT NULL,
  key TEXT NOT NULL,
  output TEXT,
  output_key TEXT,
  output_bytes INTEGER,
  expires_at TEXT,
  PRIMARY KEY (workflow_id, task, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE deadlines (
  task_id INTEGER PRIMARY KEY,
  at TEXT,
  passed INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX deadlines_due ON deadlines (at) WHERE at IS NOT NULL;

CREATE TABLE events (
  batch INTEGER PRIMARY KEY,
  at TEXT NOT NULL,
  size INTEGER NOT NULL,
  runs TEXT NOT NULL,
  events TEXT NOT NULL
) STRICT;

CREATE TABLE holders (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  process TEXT NOT NULL,
  run_id TEXT,
  lease_ms INTEGER NOT NULL,
  lease_until TEXT NOT NULL,
  dead INTEGER NOT NULL DEFAULT 0,
  capabilities TEXT,
  token_hash TEXT
, key_id TEXT, key_hash TEXT) STRICT;

CREATE TABLE job_edges (
  dependency INTEGER NOT NULL,
  dependent INTEGER NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (dependency, dependent)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_edges_back ON job_edges (dependent, position, dependency);

CREATE TABLE jobs (
  task_id INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status = 'PENDING' OR status = 'READY' OR status = 'RUNNING' OR status = 'COMPLETED' OR status = 'FAILED' OR status = 'BLOCKED'),
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  concurrency_key TEXT,
  retry_policy TEXT NOT NULL,
  task TEXT,
  payload TEXT NOT NULL
, created_by TEXT, key TEXT, settings TEXT, expires_ms INTEGER) STRICT;

CREATE UNIQUE INDEX jobs_key ON jobs (name, key) WHERE key IS NOT NULL;

CREATE INDEX jobs_of_name ON jobs (name, priority, created_at DESC, id);

CREATE INDEX jobs_of_name_by_status ON jobs (name, status, priority, created_at DESC, id) WHERE status <> 'READY';

CREATE INDEX jobs_of_queue ON jobs (queue, priority, created_at DESC, id);

CREATE INDEX jobs_of_queue_by_status ON jobs (queue, status, priority, created_at DESC, id) WHERE status <> 'READY';

CREATE TABLE limits (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  cap INTEGER NOT NULL CHECK (cap > 0),
  used INTEGER NOT NULL DEFAULT 0 CHECK (used >= 0)
) STRICT;

CREATE TABLE notification_problems (
  id INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  target INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  problem TEXT NOT NULL,
  at TEXT NOT NULL,
  gave_up INTEGER NOT NULL
, node INTEGER, path TEXT NOT NULL DEFAULT '') STRICT;

CREATE INDEX notification_problems_of_run ON notification_problems (run_id);

CREATE TABLE notifications (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  target INTEGER NOT NULL,
  due_at TEXT NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0
, node INTEGER, path TEXT NOT NULL DEFAULT '') STRICT;

CREATE INDEX notifications_due ON notifications (due_at);

CREATE TABLE queues (
  name TEXT PRIMARY KEY,
  concurrency INTEGER CHECK (concurrency > 0),
  rate_limit INTEGER CHECK (rate_limit > 0),
  rate_period_ms INTEGER CHECK (rate_period_ms > 0),
  paused INTEGER NOT NULL DEFAULT 0,
  tokens REAL NOT NULL DEFAULT 0,
  refilled_at TEXT,
  CHECK ((rate_limit IS NULL) = (rate_period_ms IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE run_numbers (
  workflow_id INTEGER PRIMARY KEY,
  last INTEGER NOT NULL
) STRICT;

CREATE TABLE runs (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  workflow_id INTEGER NOT NULL,
  version_id INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'running' OR status = 'success' OR status = 'failed' OR status = 'cancelled'),
  open_tasks INTEGER NOT NULL DEFAULT 0 CHECK (open_tasks >= 0),
  failed INTEGER NOT NULL DEFAULT 0,
  hooks_pending INTEGER NOT NULL DEFAULT 0 CHECK (hooks_pending >= 0),
  tasks_total INTEGER NOT NULL DEFAULT 0,
  tasks_success INTEGER NOT NULL DEFAULT 0,
  tasks_failed INTEGER NOT NULL DEFAULT 0,
  tasks_skipped INTEGER NOT NULL DEFAULT 0,
  tasks_cancelled INTEGER NOT NULL DEFAULT 0,
  paused INTEGER NOT NULL DEFAULT 0,
  cancelling TEXT CHECK (cancelling IN ('cancel', 'timeout')),
  "trigger" TEXT NOT NULL,
  params TEXT NOT NULL,
  priority INTEGER NOT NULL,
  logical_date TEXT,
  idempotency_key TEXT,
  private INTEGER NOT NULL,
  working_dir TEXT,
  created_at TEXT NOT NULL,
  started_at TEXT,
  finished_at TEXT,
  timeout_at TEXT,
  error TEXT,
  parent_row INTEGER,
  parent_run TEXT,
  parent_task TEXT,
  root_run_id TEXT,
  depth INTEGER NOT NULL DEFAULT 0,
  schedule_id INTEGER,
  queue_behind INTEGER NOT NULL DEFAULT 0,
  removing INTEGER NOT NULL DEFAULT 0,
  timezone TEXT,
  retry_plan TEXT, created_by TEXT, number INTEGER NOT NULL DEFAULT 0, idle_ms INTEGER NOT NULL DEFAULT 0, cause TEXT, previous_run TEXT,
  CHECK ((status IN ('pending', 'running')) = (finished_at IS NULL))
) STRICT;

CREATE INDEX runs_active ON runs (workflow_id, status) WHERE finished_at IS NULL;

CREATE INDEX runs_after_previous ON runs (previous_run) WHERE previous_run IS NOT NULL AND finished_at IS NULL;

CREATE INDEX runs_by_kind ON runs ("trigger", status, created_at, id);

CREATE INDEX runs_cancelling ON runs (seq) WHERE cancelling IS NOT NULL;

CREATE INDEX runs_closable ON runs (seq) WHERE status = 'running' AND open_tasks = 0;

CREATE INDEX runs_created ON runs (created_at, id);

CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;

CREATE UNIQUE INDEX runs_key ON runs (workflow_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE INDEX runs_logical_date ON runs (workflow_id, logical_date, created_at, id) WHERE logical_date IS NOT NULL;

CREATE UNIQUE INDEX runs_number ON runs (workflow_id, number) WHERE number > 0;

CREATE INDEX runs_of_schedule ON runs (schedule_id, seq) WHERE schedule_id IS NOT NULL AND finished_at IS NULL;

CREATE INDEX runs_of_workflow ON runs (workflow_id, created_at, id);

CREATE INDEX runs_of_workflow_by_kind ON runs (workflow_id, "trigger", status, created_at, id);

CREATE INDEX runs_private_hooks ON runs (seq) WHERE private = 1 AND hooks_pending > 0;

CREATE INDEX runs_timeout ON runs (timeout_at) WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL;

CREATE TABLE schedules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workflow_id INTEGER NOT NULL,
  version_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  spec TEXT NOT NULL,
  active INTEGER NOT NULL,
  next_at TEXT,
  last_tick_at TEXT,
  UNIQUE (workflow_id, position)
) STRICT;

CREATE INDEX schedules_due ON schedules (next_at) WHERE active = 1 AND next_at IS NOT NULL;

CREATE TABLE sessions (
  hash TEXT PRIMARY KEY,
  subject TEXT NOT NULL,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL
) STRICT;

CREATE INDEX sessions_expired ON sessions (expires_at);

CREATE TABLE settings (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE signals (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  task_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  key TEXT,
  payload TEXT NOT NULL,
  sent_at TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX signals_key ON signals (task_id, name, key) WHERE key IS NOT NULL;

CREATE INDEX signals_of_task ON signals (task_id, id);

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
  finished_at TEXT, position INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (task_id, name, occurrence)
) STRICT, WITHOUT ROWID;

CREATE TABLE stop_requests (
  task_id INTEGER PRIMARY KEY,
  attempt_id TEXT NOT NULL,
  holder INTEGER NOT NULL
) STRICT;

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY,
  run_seq INTEGER NOT NULL,
  node INTEGER NOT NULL,
  path TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'task' OR kind = 'fan' OR kind = 'group'),
  hook INTEGER NOT NULL DEFAULT 0,
  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'dispatched' OR status = 'running' OR status = 'success' OR status = 'failed' OR status = 'skipped' OR status = 'cancelled'),
  upstream_pending INTEGER NOT NULL CHECK (upstream_pending >= 0),
  lane TEXT NOT NULL,
  priority INTEGER NOT NULL,
  workflow_id INTEGER NOT NULL,
  parked INTEGER,
  attempt_id TEXT,
  holder INTEGER,
  available_at TEXT,
  attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0),
  parent_id INTEGER,
  limits TEXT,
  failures INTEGER NOT NULL DEFAULT 0,
  losses INTEGER NOT NULL DEFAULT 0,
  upstream_failed INTEGER NOT NULL DEFAULT 0,
  upstream_unmet INTEGER NOT NULL DEFAULT 0,
  upstream_waived INTEGER NOT NULL DEFAULT 0,
  skip_reason TEXT CHECK (skip_reason IN ('unmet', 'waived')),
  worker TEXT,
  external_id TEXT,
  dispatched_at TEXT,
  started_at TEXT,
  finished_at TEXT,
  item TEXT,
  output TEXT,
  output_key TEXT,
  output_bytes INTEGER,
  error TEXT,
  exit_code INTEGER,
  usage TEXT,
  last_attempt_state TEXT CHECK (last_attempt_state = 'success' OR last_attempt_state = 'failed' OR last_attempt_state = 'timeout' OR last_attempt_state = 'lost' OR last_attempt_state = 'cancelled'),
  children_total INTEGER,
  children_pending INTEGER CHECK (children_pending >= 0),
  children_failed INTEGER NOT NULL DEFAULT 0,
  children_created INTEGER NOT NULL DEFAULT 0,
  waiting_on TEXT,
  resume_at TEXT,
  resume_lane TEXT,
  resumes INTEGER NOT NULL DEFAULT 0,
  must_end INTEGER NOT NULL DEFAULT 0,
  progress TEXT,
  padding BLOB DEFAULT (zeroblob(130)), label TEXT, resume_requests INTEGER,
  CHECK (status NOT IN ('dispatched', 'running') OR kind <> 'task' OR (attempt_id IS NOT NULL AND (holder IS NOT NULL OR waiting_on IS NOT NULL))),
  CHECK (waiting_on IS NULL OR (status = 'running' AND resume_lane IS NOT NULL)),
  CHECK (resume_at IS NULL OR waiting_on IS NOT NULL),
  CHECK (holder IS NULL OR status = 'pending' OR status = 'dispatched' OR status = 'running'),
  CHECK (parked IS NULL OR status = 'pending' OR waiting_on IS NOT NULL),
  CHECK (available_at IS NULL OR status = 'pending')
) STRICT;

CREATE INDEX tasks_children ON tasks (parent_id) WHERE parent_id IS NOT NULL;

CREATE INDEX tasks_in_flight ON tasks (run_seq) WHERE holder IS NOT NULL;

CREATE UNIQUE INDEX tasks_key ON tasks (run_seq, node, path);

CREATE INDEX tasks_of_run ON tasks (run_seq);

CREATE INDEX tasks_parked ON tasks (parked, lane, priority DESC, run_seq) WHERE parked IS NOT NULL;

CREATE INDEX tasks_paused ON tasks (run_seq) WHERE parked = 0;

CREATE INDEX tasks_pending ON tasks (run_seq) WHERE status = 'pending' AND attempt_id IS NULL AND parent_id IS NOT NULL;

CREATE INDEX tasks_ready ON tasks (lane, priority DESC, workflow_id, run_seq)
  WHERE status = 'pending' AND attempt_id IS NULL AND upstream_pending = 0 AND parked IS NULL AND available_at IS NULL;

CREATE INDEX tasks_resume ON tasks (resume_lane, resume_at) WHERE resume_at IS NOT NULL;

CREATE INDEX tasks_timers ON tasks (available_at) WHERE available_at IS NOT NULL;

CREATE INDEX tasks_waiting ON tasks (run_seq) WHERE waiting_on IS NOT NULL;

CREATE TABLE ticks (
  workflow_id INTEGER NOT NULL,
  schedule TEXT NOT NULL,
  tick_at TEXT NOT NULL,
  run_id TEXT, skipped TEXT,
  PRIMARY KEY (workflow_id, schedule, tick_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX ticks_skipped ON ticks (workflow_id, schedule, tick_at) WHERE skipped IS NOT NULL;

CREATE TABLE trigger_files (
  workflow_id INTEGER NOT NULL,
  pattern TEXT NOT NULL,
  path TEXT NOT NULL,
  version TEXT NOT NULL,
  run_id TEXT,
  PRIMARY KEY (workflow_id, pattern, path, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE trigger_paths (
  workflow_id INTEGER NOT NULL,
  pattern TEXT NOT NULL,
  since TEXT NOT NULL,
  PRIMARY KEY (workflow_id, pattern)
) STRICT, WITHOUT ROWID;

CREATE TABLE trigger_successes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  trigger_id INTEGER NOT NULL,
  upstream TEXT NOT NULL,
  run_id TEXT NOT NULL,
  logical_date TEXT,
  timezone TEXT
) STRICT;

CREATE INDEX trigger_successes_of_trigger ON trigger_successes (trigger_id, id);

CREATE TABLE trigger_upstreams (
  upstream TEXT NOT NULL,
  trigger_id INTEGER NOT NULL,
  PRIMARY KEY (upstream, trigger_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX trigger_upstreams_of_trigger ON trigger_upstreams (trigger_id);

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

CREATE TABLE used_messages (
  key TEXT PRIMARY KEY,
  used_at TEXT NOT NULL
) STRICT;

CREATE INDEX used_messages_at ON used_messages (used_at);

CREATE TABLE versions (
  id INTEGER PRIMARY KEY,
  workflow_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  hash TEXT NOT NULL,
  source TEXT NOT NULL,
  compiled TEXT NOT NULL,
  bundle TEXT,
  created_at TEXT NOT NULL, created_by TEXT,
  UNIQUE (workflow_id, hash),
  UNIQUE (workflow_id, version)
) STRICT;

CREATE INDEX versions_bundle ON versions (bundle) WHERE bundle IS NOT NULL;

CREATE TABLE workflows (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  deployed_version INTEGER,
  paused INTEGER NOT NULL DEFAULT 0,
  tags TEXT NOT NULL DEFAULT '[]',
  created_at TEXT NOT NULL,
  updated_at TEXT
) STRICT;
