// The schema, as numbered steps, the same numbers as SQLite's. Applied on start under a lock of the database; the number
// reached is in the table `schema_version`. A step that was released is never edited. `schema.txt` beside this file is what
// they add up to (held by a test).
//
// Indexes that the loop reads (timers, parked, waiting) are partial: finished rows are in none of them. No index of `tasks` names a
// column that a plain claim or end changes (status, attempt_id, holder, upstream_pending): so those write to no index at all.

import { SchemaTooNew } from "../../contract/errors.ts"
import { hostOf, type Connection, statement } from "../connection/connection.ts"
import type { ConnectionPool } from "../connection/connection-pool.ts"

const FIRST = `
CREATE TABLE workflows (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE,
  deployed_version bigint,
  paused boolean NOT NULL DEFAULT false,
  created_at timestamptz(3) NOT NULL
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

-- generation: raised by each retry of the user; what a store remembers of a run's ends holds for one generation.
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
  root_run_id uuid
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX runs_key ON runs (workflow_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_created ON runs (created_at DESC, id DESC);
CREATE INDEX runs_of_workflow ON runs (workflow_id, created_at DESC, id DESC);
CREATE INDEX runs_finished ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_active ON runs (workflow_id, seq) WHERE status IN ('pending', 'running');
CREATE INDEX runs_cancelling ON runs (seq) WHERE cancelling IS NOT NULL AND status IN ('pending', 'running');
CREATE INDEX runs_timeout ON runs (timeout_at) WHERE timeout_at IS NOT NULL AND status = 'running' AND cancelling IS NULL;

-- Columns of a fixed width come first: those behind them are found in one step. No CHECK here and in runs: Postgres parses them
-- again for every statement that writes; the tests enforce what they would say. inner_run: the run of a row in a fan-out or group
-- that was not dispatched yet, for the cancel of large runs. waiting_on: what a running row without a slot waits
-- for; it is given out among the gates of resume_lane when resume_at has come. cancel_requested: its run is being cancelled, and it was
-- woken for that.
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
  priority smallint NOT NULL,
  hook boolean NOT NULL DEFAULT false,
  cancel_requested boolean NOT NULL DEFAULT false,
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
  outcome text,
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
CREATE INDEX tasks_parked ON tasks (parked, priority DESC, run_seq, id) WHERE parked IS NOT NULL;
CREATE INDEX tasks_waiting ON tasks (run_seq, id) WHERE waiting_on IS NOT NULL;
CREATE INDEX tasks_resume ON tasks (resume_lane, resume_at) WHERE resume_at IS NOT NULL;
CREATE INDEX tasks_children ON tasks (parent_id, id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_inner ON tasks (run_seq, id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_waiting_inside ON tasks (inner_run, id) WHERE inner_run IS NOT NULL;

-- Lists beside tasks, kept by the statements that write there (ready.ts): what may be taken, and what somebody holds.
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
`

/** What a server asks for: the log of events, schedules, queues, jobs, keys, the audit log; indexes of lists of runs. */
const SERVER = `
ALTER TABLE workflows ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE workflows ADD COLUMN tags text NOT NULL DEFAULT '[]';
ALTER TABLE workflows ADD COLUMN updated_at timestamptz(3);
UPDATE workflows SET updated_at = created_at;

-- queue_behind: the run stays pending while an earlier run of its schedule is active.
ALTER TABLE runs ADD COLUMN schedule_id bigint;
ALTER TABLE runs ADD COLUMN queue_behind boolean NOT NULL DEFAULT false;
-- NULLS LAST: what orders by it cannot be planned over runs_created, which would read the history for a workflow with few runs.
DROP INDEX runs_of_workflow;
CREATE INDEX runs_of_workflow ON runs (workflow_id, created_at DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX runs_by_kind ON runs (trigger, status, created_at DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX runs_of_workflow_by_kind ON runs (workflow_id, trigger, status, created_at DESC NULLS LAST, id DESC NULLS LAST);
CREATE INDEX runs_of_schedule ON runs (schedule_id, seq) WHERE schedule_id IS NOT NULL AND status IN ('pending', 'running');

-- One row per transaction that has events. batch: the number of the transaction, since those that are older than every open one
-- are complete, which a sequence does not tell. The newest is never removed: it tells where the log has come to.
CREATE TABLE events (
  batch bigint PRIMARY KEY DEFAULT pg_current_xact_id()::text::bigint,
  at timestamptz(3) NOT NULL,
  size integer NOT NULL,
  runs text NOT NULL,
  events text NOT NULL
);

-- active: its workflow is not paused.
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

-- What was fired, for ever. schedule: place, cron and zone, so that it outlives the row above.
CREATE TABLE ticks (
  workflow_id bigint NOT NULL,
  schedule text NOT NULL COLLATE "C",
  tick_at timestamptz(3) NOT NULL,
  run_id uuid,
  PRIMARY KEY (workflow_id, schedule, tick_at)
);

-- tokens: how many may start by its rate as of refilled_at. Its concurrency is counted by the limit q:NAME.
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

-- A job is a row of tasks with run_seq 0 and its id as path. status follows from that row, and is here for the indexes of search.
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

-- Live attempts of jobs that were cancelled or deleted, and of groups that are overdue: their holder stops them.
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
`

/** Notices that are owed to others; see notice-store.ts. */
const NOTICES = `
CREATE TABLE notifications (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id uuid NOT NULL,
  kind text NOT NULL,
  target integer NOT NULL,
  due_at timestamptz(3) NOT NULL,
  tries integer NOT NULL DEFAULT 0
);
CREATE INDEX notifications_due ON notifications (due_at);
`

/** When a group that is open has taken long enough; see deadlines.ts. */
const DEADLINES = `
-- at: when to look at it, NULL while nothing is to be done. passed: it is overdue, and what is below it is being ended.
CREATE TABLE deadlines (
  task_id bigint PRIMARY KEY,
  at timestamptz(3),
  passed boolean NOT NULL DEFAULT false
);
CREATE INDEX deadlines_due ON deadlines (at) WHERE at IS NOT NULL;
`

export const MIGRATIONS = [FIRST, SERVER, NOTICES, DEADLINES] as const

const LOCK = statement("migrate_lock", "SELECT pg_advisory_xact_lock(hashtextextended('ork ' || $1, 0))")
const PREPARE = (schema: string): string => `
CREATE SCHEMA IF NOT EXISTS ${schema};
CREATE TABLE IF NOT EXISTS ${schema}.schema_version (version integer NOT NULL);`
const FOUND = statement("migrate_found", "SELECT COALESCE(max(version), 0)::integer AS version FROM schema_version")
const REACHED = statement("migrate_reached", "WITH old AS (DELETE FROM schema_version) INSERT INTO schema_version VALUES ($1)")

/** Applies what is missing, all of it or nothing; servers that start together wait for each other. */
export const migrate = (
  sessions: ConnectionPool,
  target: { url: string; schema: string },
  migrations: readonly string[] = MIGRATIONS,
): Promise<void> =>
  sessions.use(async (session) => {
    await session.script("BEGIN")
    try {
      await session.run(LOCK, [target.schema])
      await apply(session, target, migrations)
      await session.script("COMMIT")
    } catch (error) {
      if (!session.broken) await session.script("ROLLBACK")
      throw error
    }
  })

const apply = async (
  session: Connection,
  target: { url: string; schema: string },
  migrations: readonly string[],
): Promise<void> => {
  await session.script(PREPARE(`"${target.schema.replaceAll('"', '""')}"`))
  const found = (await session.run<{ version: number }>(FOUND))[0]!.version
  if (found > migrations.length) throw new SchemaTooNew(hostOf(target.url), found, migrations.length)
  if (found === migrations.length) return
  for (const step of migrations.slice(found)) await session.script(step)
  await session.run(REACHED, [migrations.length])
}
