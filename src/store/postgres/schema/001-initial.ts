// Migration 1: the initial schema. Released: never edit this file; add a migration instead (see migrations.ts).
//
// The indexes that the loop reads (timers, parked, waiting) are partial and contain no finished rows. No index of `tasks` contains a
// column that a plain claim or finish changes (status, attempt_id, holder, upstream_pending), so these writes touch no index.

export const INITIAL = `
CREATE TABLE workflows (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE COLLATE "C",
  deployed_version bigint,
  paused boolean NOT NULL DEFAULT false,
  tags text NOT NULL DEFAULT '[]',
  created_at timestamptz(3) NOT NULL,
  updated_at timestamptz(3)
);

CREATE TABLE versions (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workflow_id bigint NOT NULL REFERENCES workflows (id),
  version integer NOT NULL,
  hash text NOT NULL,
  source text NOT NULL,
  compiled text NOT NULL,
  bundle text,
  created_at timestamptz(3) NOT NULL,
  UNIQUE (workflow_id, hash),
  UNIQUE (workflow_id, version)
);
CREATE INDEX versions_bundle ON versions (bundle) WHERE bundle IS NOT NULL;

-- generation: incremented by each retry of the run and each override; cached results of its tasks are valid for one generation. open_tasks: number of
-- unfinished top-level rows, hooks excluded. queue_behind: the run stays pending while an earlier run of its schedule is active.
-- removing: the removal of the run has begun; it cannot be retried.
CREATE TABLE runs (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  workflow_id bigint NOT NULL,
  version_id bigint NOT NULL,
  status text NOT NULL,
  paused boolean NOT NULL DEFAULT false,
  cancelling text,
  trigger text NOT NULL,
  params text NOT NULL,
  priority smallint NOT NULL,
  logical_date text,
  idempotency_key text,
  private boolean NOT NULL,
  working_dir text,
  timezone text,
  created_at timestamptz(3) NOT NULL,
  started_at timestamptz(3),
  finished_at timestamptz(3),
  timeout_at timestamptz(3),
  error text,
  open_tasks integer NOT NULL DEFAULT 0,
  failed integer NOT NULL DEFAULT 0,
  hooks_pending integer NOT NULL DEFAULT 0,
  generation integer NOT NULL DEFAULT 1,
  tasks_total integer NOT NULL DEFAULT 0,
  tasks_success integer NOT NULL DEFAULT 0,
  tasks_failed integer NOT NULL DEFAULT 0,
  tasks_skipped integer NOT NULL DEFAULT 0,
  tasks_cancelled integer NOT NULL DEFAULT 0,
  depth integer NOT NULL DEFAULT 0,
  parent_row bigint,
  parent_run uuid,
  parent_task text,
  root_run_id uuid,
  schedule_id bigint,
  queue_behind boolean NOT NULL DEFAULT false,
  removing boolean NOT NULL DEFAULT false,
  retry_plan text
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX runs_key ON runs (workflow_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_created ON runs (created_at DESC, id DESC);
CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_active ON runs (workflow_id, seq) WHERE status IN ('pending', 'running');
CREATE INDEX runs_cancelling ON runs (seq) WHERE cancelling IS NOT NULL AND status IN ('pending', 'running');
CREATE INDEX runs_private_hooks ON runs (seq) WHERE private AND hooks_pending > 0;
CREATE INDEX runs_timeout ON runs (timeout_at) WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL;
-- NULLS LAST: keeps the planner from answering these queries with runs_created, which would read the whole history for a workflow
-- with few runs.
CREATE INDEX runs_of_workflow ON runs (workflow_id, created_at DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX runs_by_kind ON runs (trigger, status, created_at DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX runs_of_workflow_by_kind ON runs (workflow_id, trigger, status, created_at DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX runs_of_schedule ON runs (schedule_id, seq) WHERE schedule_id IS NOT NULL AND status IN ('pending', 'running');

-- Fixed-width columns come first, so that Postgres finds them without scanning the row. Neither tasks nor runs has CHECK constraints:
-- Postgres would parse them for every statement that writes; the tests enforce the same rules (test/support/postgres-rules.ts).
-- inner_run: the run of a row inside a fan-out or group that is not dispatched yet; the cancellation of large runs reads it.
-- limits: ids of its limits, NULL for none. parked: 0 for a paused run, -1 below a group that waits for slots, else the id of the full
-- limit. holder: the process that runs the task or evaluates its gate; worker: the name of the holder of the last attempt.
-- last_attempt_state: state of the last finished attempt. waiting_on: what a running row without a slot waits for; the gate of
-- resume_lane claims the row when resume_at is due. resumes: how often that happened in this attempt. must_end: the row was resumed
-- in order to finish, because its run is being cancelled or its group is past its timeout.
CREATE TABLE tasks (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_seq bigint NOT NULL,
  workflow_id bigint NOT NULL,
  node integer NOT NULL,
  upstream_pending integer NOT NULL,
  upstream_failed integer NOT NULL DEFAULT 0,
  upstream_unmet integer NOT NULL DEFAULT 0,
  upstream_waived integer NOT NULL DEFAULT 0,
  attempt integer NOT NULL DEFAULT 0,
  failures integer NOT NULL DEFAULT 0,
  losses integer NOT NULL DEFAULT 0,
  children_failed integer NOT NULL DEFAULT 0,
  children_created integer NOT NULL DEFAULT 0,
  resumes integer NOT NULL DEFAULT 0,
  priority smallint NOT NULL,
  hook boolean NOT NULL DEFAULT false,
  must_end boolean NOT NULL DEFAULT false,
  status text NOT NULL DEFAULT 'pending',
  kind text NOT NULL,
  lane text NOT NULL COLLATE "C",
  path text NOT NULL COLLATE "C",
  attempt_id uuid,
  holder uuid,
  parked bigint,
  available_at timestamptz(3),
  parent_id bigint,
  skip_reason text,
  limits bigint[],
  worker text,
  external_id text,
  dispatched_at timestamptz(3),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  item text,
  output text,
  output_key text,
  output_bytes bigint,
  error text,
  exit_code integer,
  usage text,
  last_attempt_state text,
  children_total integer,
  children_pending integer,
  waiting_on text,
  resume_at timestamptz(3),
  resume_lane text COLLATE "C",
  progress text,
  inner_run bigint
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE UNIQUE INDEX tasks_key ON tasks (run_seq, node, path);
CREATE INDEX tasks_timers ON tasks (available_at) WHERE available_at IS NOT NULL;
CREATE INDEX tasks_parked ON tasks (parked, lane, priority DESC, run_seq, id) WHERE parked IS NOT NULL;
CREATE INDEX tasks_paused ON tasks (run_seq) WHERE parked = 0;
CREATE INDEX tasks_waiting ON tasks (run_seq, id) WHERE waiting_on IS NOT NULL;
CREATE INDEX tasks_resume ON tasks (resume_lane, resume_at) WHERE resume_at IS NOT NULL;
CREATE INDEX tasks_children ON tasks (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_inner ON tasks (run_seq, id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_waiting_inside ON tasks (inner_run, id) WHERE inner_run IS NOT NULL;

-- ready_queue lists the claimable rows of tasks in claim order, in_flight the claimed ones. The statements that write to tasks maintain
-- both. ready_queue may contain stale entries (claims delete them) but never misses a ready row.
CREATE TABLE ready_queue (
  lane text NOT NULL COLLATE "C",
  priority smallint NOT NULL,
  workflow_id bigint NOT NULL,
  run_seq bigint NOT NULL,
  id bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
CREATE INDEX ready_queue_order ON ready_queue (lane, priority DESC, workflow_id, run_seq, id);

CREATE TABLE in_flight (
  run_seq bigint NOT NULL,
  id bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
CREATE INDEX in_flight_of_run ON in_flight (run_seq, id);

CREATE TABLE attempts (
  task_id bigint NOT NULL,
  attempt integer NOT NULL,
  attempt_id uuid NOT NULL,
  state text NOT NULL,
  worker text,
  external_id text,
  exit_code integer,
  error text,
  usage text,
  dispatched_at timestamptz(3),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  PRIMARY KEY (task_id, attempt)
);

CREATE TABLE limits (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key text NOT NULL UNIQUE COLLATE "C",
  cap integer NOT NULL,
  used integer NOT NULL DEFAULT 0 CHECK (used >= 0)
) WITH (fillfactor = 50);

CREATE TABLE holders (
  seq bigint GENERATED ALWAYS AS IDENTITY,
  id uuid PRIMARY KEY,
  kind text NOT NULL,
  name text NOT NULL,
  process text NOT NULL,
  run_id uuid,
  lease_ms integer NOT NULL,
  lease_until timestamptz(3) NOT NULL,
  dead boolean NOT NULL DEFAULT false,
  capabilities text,
  token_hash text
) WITH (fillfactor = 50);

CREATE TABLE settings (
  name text PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE cache (
  workflow_id bigint NOT NULL,
  task text NOT NULL,
  key text NOT NULL,
  output text,
  output_key text,
  output_bytes bigint,
  expires_at timestamptz(3),
  PRIMARY KEY (workflow_id, task, key)
);

-- One row per transaction that has events. batch is the newest transaction id that had committed, or the row's own: a reader knows that
-- all batches older than the oldest open transaction are complete, which a sequence cannot tell. seq orders the rows of one batch.
-- The newest batch is never removed: it marks the end of the log.
CREATE TABLE events (
  batch bigint NOT NULL DEFAULT greatest(
    pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1),
  at timestamptz(3) NOT NULL,
  size integer NOT NULL,
  runs text NOT NULL,
  events text NOT NULL,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (batch, seq)
);

-- active: the workflow is not paused.
CREATE TABLE schedules (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workflow_id bigint NOT NULL,
  version_id bigint NOT NULL,
  position integer NOT NULL,
  spec text NOT NULL,
  active boolean NOT NULL,
  next_at timestamptz(3),
  last_tick_at timestamptz(3),
  UNIQUE (workflow_id, position)
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE active AND next_at IS NOT NULL;

-- Every fired tick, kept forever. schedule: position, cron expression and time zone, so that it outlives the row in schedules.
CREATE TABLE ticks (
  workflow_id bigint NOT NULL,
  schedule text NOT NULL COLLATE "C",
  tick_at timestamptz(3) NOT NULL,
  run_id uuid,
  PRIMARY KEY (workflow_id, schedule, tick_at)
);

-- tokens: how many tasks may start under the rate limit, as of refilled_at. The limit q:NAME counts the queue's concurrency.
CREATE TABLE queues (
  name text PRIMARY KEY COLLATE "C",
  concurrency integer CHECK (concurrency > 0),
  rate_limit integer CHECK (rate_limit > 0),
  rate_period_ms bigint CHECK (rate_period_ms > 0),
  paused boolean NOT NULL DEFAULT false,
  tokens double precision NOT NULL DEFAULT 0,
  refilled_at timestamptz(3),
  CHECK ((rate_limit IS NULL) = (rate_period_ms IS NULL))
) WITH (fillfactor = 50);

-- A job is a row of tasks with run_seq 0 and the job's id as path. status is derived from that row and stored for the search indexes.
CREATE TABLE jobs (
  task_id bigint PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  name text NOT NULL,
  queue text NOT NULL COLLATE "C",
  priority smallint NOT NULL,
  status text NOT NULL COLLATE "C" CHECK (status IN ('PENDING', 'READY', 'RUNNING', 'COMPLETED', 'FAILED', 'BLOCKED')),
  created_at timestamptz(3) NOT NULL,
  updated_at timestamptz(3) NOT NULL,
  concurrency_key text,
  retry_policy text NOT NULL,
  task text,
  payload text NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX jobs_created ON jobs (priority, created_at DESC, id);
CREATE INDEX jobs_of_queue ON jobs (queue, priority, created_at DESC, id);
CREATE INDEX jobs_by_status ON jobs (status, priority, created_at DESC, id);
CREATE INDEX jobs_of_queue_by_status ON jobs (queue, status, priority, created_at DESC, id);

CREATE TABLE job_edges (
  dependency bigint NOT NULL,
  dependent bigint NOT NULL,
  position integer NOT NULL,
  PRIMARY KEY (dependency, dependent)
);
CREATE INDEX job_edges_back ON job_edges (dependent, position, dependency);

-- In-flight attempts that their holder must stop: attempts of cancelled or deleted jobs, and of groups past their timeout.
CREATE TABLE stop_requests (
  task_id bigint PRIMARY KEY,
  attempt_id uuid NOT NULL,
  holder uuid NOT NULL
);

CREATE TABLE api_keys (
  id text PRIMARY KEY,
  name text NOT NULL,
  scopes text NOT NULL,
  hash text NOT NULL UNIQUE,
  created_at timestamptz(3) NOT NULL,
  last_used_at timestamptz(3)
);

CREATE TABLE audit (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz(3) NOT NULL,
  key_id text,
  action text NOT NULL,
  target text NOT NULL,
  details text
);

CREATE TABLE notifications (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id uuid NOT NULL,
  kind text NOT NULL,
  target integer NOT NULL,
  due_at timestamptz(3) NOT NULL,
  tries integer NOT NULL DEFAULT 0
);
CREATE INDEX notifications_due ON notifications (due_at);

-- Timeouts of open groups. at: when the timeout is due, NULL while nothing is to be done. passed: the timeout has passed, and the
-- group's tasks are being cancelled.
CREATE TABLE deadlines (
  task_id bigint PRIMARY KEY,
  at timestamptz(3),
  passed boolean NOT NULL DEFAULT false
);
CREATE INDEX deadlines_due ON deadlines (at) WHERE at IS NOT NULL;
`
