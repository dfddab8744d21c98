// SQL functions for transactions of users: `enqueue` creates jobs, `complete` records the result of a step. Both set what their statements
// need (search path, planner) for the call only. The store creates jobs by `insert_jobs` too.

const PLANNER = `SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
  SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_memoize = off SET jit = off SET TimeZone = 'UTC' SET DateStyle = 'ISO'`

/**
 * Inserts jobs without a conflict of keys. Numbers the rows itself: a join of the inserts would compare every job with every other one.
 * The limits of a job are '{}' while they are not created: the job then waits for a timer, which creates them outside of the user's
 * transaction (jobs/late-limits.ts).
 */
const INSERT_JOBS = `
CREATE FUNCTION insert_jobs(uuid[], text[], text[], text[], smallint[], text[], text[], int[], text[], text[], text[], text[], text[],
  text[], bigint[], timestamptz[], bigint[], text[], text[], bigint[], text[], timestamptz)
RETURNS TABLE (new_row bigint, new_id uuid, new_at timestamptz, new_available_at timestamptz) LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
    AS c (id, name, queue, lane, priority, status, row_status, upstream_pending, limits, error, concurrency_key, retry_policy, task,
      payload, group_id, run_at, delay_ms, key, settings, expires_ms, created_by)
  ), clock AS (
    SELECT COALESCE($22, now())::timestamptz(3) AS at
  ), new AS MATERIALIZED (
    SELECT nextval(pg_get_serial_sequence('tasks', 'id')) AS task_id, c.at, g.*,
      (SELECT CASE WHEN g.row_status = 'skipped' THEN NULL WHEN due.at > c.at THEN due.at WHEN g.limits = '{}' THEN c.at END
       FROM (SELECT COALESCE(g.run_at, c.at + g.delay_ms * interval '1 millisecond')::timestamptz(3) AS at) due) AS available_at
    FROM given g CROSS JOIN clock c
  ), row AS (
    INSERT INTO tasks (id, run_seq, workflow_id, node, path, kind, status, upstream_pending, lane, priority, limits, error, finished_at,
      available_at, item) OVERRIDING SYSTEM VALUE
    SELECT n.task_id, 0, n.group_id, 0, n.id::text, 'task', n.row_status, n.upstream_pending, n.lane, n.priority, n.limits::bigint[],
      n.error, CASE WHEN n.row_status = 'skipped' THEN n.at END, n.available_at, n.name
    FROM new n
  ), enqueued AS (
    INSERT INTO ready_queue (lane, priority, workflow_id, run_seq, id)
    SELECT n.lane, n.priority, n.group_id, 0, n.task_id FROM new n
    WHERE n.row_status = 'pending' AND n.upstream_pending = 0 AND n.available_at IS NULL
  ), expiring AS (
    INSERT INTO deadlines (task_id, at)
    SELECT n.task_id, COALESCE(n.available_at, n.at) + n.expires_ms * interval '1 millisecond' FROM new n
    WHERE n.expires_ms IS NOT NULL AND n.row_status = 'pending' AND n.upstream_pending = 0
  ), inserted AS (
    INSERT INTO jobs (task_id, id, name, queue, priority, status, created_at, updated_at, concurrency_key, retry_policy, task, payload,
      key, settings, expires_ms, created_by)
    SELECT n.task_id, n.id, n.name, n.queue, n.priority, n.status, n.at, n.at, n.concurrency_key, n.retry_policy, n.task, n.payload,
      n.key, n.settings, n.expires_ms, n.created_by
    FROM new n
  )
  SELECT n.task_id, n.id, n.at, n.available_at FROM new n;
END $$;
`

const FIELDS = `'id', 'name', 'queue', 'function', 'task', 'payload', 'priority', 'retry', 'group', 'idempotency_key', 'on_conflict', 'run_at',
      'delay', 'timeout', 'expires', 'concurrency_key', 'concurrency_limit', 'limits'`

/** Checks of values, with messages that name the field. */
const CHECKS = `
CREATE FUNCTION enqueue_problem(field text, problem text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'ork.enqueue: %: %', field, problem USING ERRCODE = 'invalid_parameter_value';
END $$;

CREATE FUNCTION enqueue_ms(value jsonb, field text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  part text[];
  total numeric := 0;
BEGIN
  IF value IS NULL OR value = 'null' THEN RETURN NULL; END IF;
  IF value #>> '{}' ~ '^[0-9]+([.][0-9]+)?$' THEN RETURN round((value #>> '{}')::numeric * 1000); END IF;
  IF jsonb_typeof(value) <> 'string' OR value #>> '{}' !~ '^([0-9]+([.][0-9]+)?(ms|s|m|h|d))+$' THEN
    PERFORM enqueue_problem(field, 'must be seconds or a text such as 200ms, 30s, 5m, 2h, 3d');
  END IF;
  FOR part IN SELECT regexp_matches(value #>> '{}', '([0-9]+(?:[.][0-9]+)?)(ms|s|m|h|d)', 'g') LOOP
    total := total + part[1]::numeric * CASE part[2] WHEN 'ms' THEN 1 WHEN 's' THEN 1000 WHEN 'm' THEN 60000 WHEN 'h' THEN 3600000 ELSE 86400000 END;
  END LOOP;
  RETURN round(total);
END $$;

CREATE FUNCTION enqueue_check(job jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  field text;
BEGIN
  IF jsonb_typeof(job) IS DISTINCT FROM 'object' THEN PERFORM enqueue_problem('job', 'must be an object'); END IF;
  FOR field IN SELECT jsonb_object_keys(job) LOOP
    IF field NOT IN (${FIELDS}) THEN PERFORM enqueue_problem(field, 'is not a field of a job'); END IF;
  END LOOP;
  IF jsonb_typeof(job -> 'name') IS DISTINCT FROM 'string' OR char_length(job ->> 'name') NOT BETWEEN 1 AND 255 THEN
    PERFORM enqueue_problem('name', 'must be a text of 1 to 255 characters');
  END IF;
  IF COALESCE(job ->> 'queue', 'default') !~ '^[a-zA-Z0-9_]{1,64}$' THEN
    PERFORM enqueue_problem('queue', 'must be 1 to 64 letters, digits and underscores');
  END IF;
  IF COALESCE(job ->> 'function', 'f') !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,63}$' THEN
    PERFORM enqueue_problem('function', 'must be at most 64 letters, digits, "_", "." and "-", beginning with a letter or "_"');
  END IF;
  IF COALESCE(job ->> 'priority', '5') !~ '^([1-9]|10)$' THEN
    PERFORM enqueue_problem('priority', 'must be a whole number from 1 to 10');
  END IF;
  IF char_length(COALESCE(job ->> 'idempotency_key', 'k')) NOT BETWEEN 1 AND 512 THEN
    PERFORM enqueue_problem('idempotency_key', 'must be a text of 1 to 512 characters');
  END IF;
  IF COALESCE(job ->> 'on_conflict', 'existing') NOT IN ('existing', 'error') THEN
    PERFORM enqueue_problem('on_conflict', 'must be existing or error');
  END IF;
  IF job ? 'concurrency_limit' AND NOT job ? 'concurrency_key' THEN
    PERFORM enqueue_problem('concurrency_limit', 'requires concurrency_key');
  END IF;
  IF COALESCE(job ->> 'concurrency_limit', '1') !~ '^[1-9][0-9]{0,6}$' THEN
    PERFORM enqueue_problem('concurrency_limit', 'must be a whole number from 1');
  END IF;
  IF job ? 'retry' AND COALESCE(job -> 'retry' ->> 'max_attempts', '') !~ '^([1-9][0-9]?|100)$' THEN
    PERFORM enqueue_problem('retry.max_attempts', 'must be a whole number from 1 to 100');
  END IF;
  IF COALESCE(job -> 'retry' ->> 'backoff', 'fixed') NOT IN ('fixed', 'linear', 'exponential') THEN
    PERFORM enqueue_problem('retry.backoff', 'must be fixed, linear or exponential');
  END IF;
END $$;

CREATE FUNCTION enqueue_retry(retry jsonb) RETURNS jsonb LANGUAGE sql AS $$
  SELECT CASE WHEN retry IS NOT NULL THEN jsonb_build_object('maxAttempts', (retry ->> 'max_attempts')::int,
    'backoff', COALESCE(retry ->> 'backoff', 'exponential'), 'baseDelayMs', COALESCE(enqueue_ms(retry -> 'base_delay', 'retry.base_delay'), 1000),
    'maxDelayMs', COALESCE(enqueue_ms(retry -> 'max_delay', 'retry.max_delay'), 300000), 'jitter', COALESCE((retry ->> 'jitter')::boolean, false)) END
$$;
`

/** Returns a number of the group as `jobGroupNumber` in store/shared/job-rows.ts does. */
const GROUP_ID = (group: string): string =>
  `COALESCE(('x' || left(encode(sha256(convert_to(${group}, 'UTF8')), 'hex'), 12))::bit(48)::bigint % 140737488355328 + 140737488355328, 0)`

const UUID = `encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
      placing substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid`

const HAS_LIMITS = "(j ? 'concurrency_key' OR jsonb_array_length(COALESCE(j -> 'limits', '[]')) > 0)"

/** Inserts checked jobs and their events. Returns their ids in the given order. */
const ENQUEUE_NEW = `
CREATE FUNCTION enqueue_new(jobs jsonb, payloads text[]) RETURNS uuid[] LANGUAGE plpgsql AS $$
DECLARE
  ids uuid[];
  names text[];
  queues text[];
  base bigint := extract(epoch FROM now()::timestamptz(3)) * 1000;
BEGIN
  WITH given AS MATERIALIZED (
    SELECT j, p, COALESCE((j ->> 'id')::uuid, ${UUID}) AS id, COALESCE(j ->> 'queue', 'default') AS queue,
      COALESCE(j -> 'task', jsonb_build_object('executor', 'function', 'function', j ->> 'function')) AS node
    FROM jsonb_array_elements(jobs) WITH ORDINALITY AS e (j, p)
  ), columns AS (
    SELECT array_agg(id ORDER BY p) AS ids, array_agg(j ->> 'name' ORDER BY p) AS names, array_agg(queue ORDER BY p) AS queues,
      array_agg(CASE WHEN node ->> 'function' IS NULL THEN 'h:' || queue ELSE 'f:' || queue || '|' || (node ->> 'function') END ORDER BY p) AS lanes,
      array_agg(COALESCE((j ->> 'priority')::smallint, 5::smallint) ORDER BY p) AS priorities,
      array_agg('READY'::text) AS statuses, array_agg('pending'::text) AS row_statuses, array_agg(0) AS pending,
      array_agg(CASE WHEN ${HAS_LIMITS} THEN '{}' END ORDER BY p) AS limits,
      array_agg(j ->> 'concurrency_key' ORDER BY p) AS concurrency_keys,
      array_agg('{"max_attempts":3,"backoff_strategy":"EXPONENTIAL","base_delay_seconds":10,"max_delay_seconds":300}'::text) AS policies,
      array_agg(CASE WHEN node ->> 'function' IS NOT NULL THEN node::text END ORDER BY p) AS tasks,
      array_agg(COALESCE(payloads[p], (j -> 'payload')::text, 'null') ORDER BY p) AS payloads,
      array_agg(${GROUP_ID("j ->> 'group'")} ORDER BY p) AS groups,
      array_agg((j ->> 'run_at')::timestamptz ORDER BY p) AS run_ats, array_agg(enqueue_ms(j -> 'delay', 'delay') ORDER BY p) AS delays,
      array_agg(j ->> 'idempotency_key' ORDER BY p) AS keys,
      array_agg(NULLIF(jsonb_strip_nulls(jsonb_build_object('retry', enqueue_retry(j -> 'retry'),
        'concurrencyLimit', NULLIF((j ->> 'concurrency_limit')::int, 1), 'limits', NULLIF(j -> 'limits', '[]'),
        'runAt', to_char((j ->> 'run_at')::timestamptz, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'delayMs', enqueue_ms(j -> 'delay', 'delay'),
        'timeoutMs', enqueue_ms(j -> 'timeout', 'timeout'), 'group', j ->> 'group'))::text, '{}') ORDER BY p) AS settings,
      array_agg(enqueue_ms(j -> 'expires', 'expires') ORDER BY p) AS expiries
    FROM given
  ), inserted AS (
    SELECT count(*) FROM columns c CROSS JOIN LATERAL insert_jobs(c.ids, c.names, c.queues, c.lanes, c.priorities, c.statuses, c.row_statuses,
      c.pending, c.limits, NULL, c.concurrency_keys, c.policies, c.tasks, c.payloads, c.groups, c.run_ats, c.delays, c.keys, c.settings,
      c.expiries, NULL, NULL)
  )
  SELECT c.ids, c.names, c.queues INTO ids, names, queues FROM columns c CROSS JOIN inserted;
  INSERT INTO events (at, size, runs, events)
  SELECT now(), count(*), '[]', jsonb_build_object('base', base, 'tasks', to_jsonb(names || queues), 'events', jsonb_agg(
    jsonb_build_array(2, n.id, 1, 0, 0, CASE WHEN t.available_at > now() THEN (extract(epoch FROM t.available_at) * 1000)::bigint - base END,
      n.p - 1, n.p - 1 + cardinality(ids)) ORDER BY n.p))::text
  FROM unnest(ids) WITH ORDINALITY AS n (id, p) JOIN jobs j ON j.id = n.id JOIN tasks t ON t.id = j.task_id;
  RETURN ids;
END $$;
`

const ENQUEUE = `
CREATE FUNCTION enqueue(jobs jsonb, payloads text[] DEFAULT NULL, expected text DEFAULT NULL)
RETURNS TABLE (id uuid, created boolean, status text, payload text, attempts int, error text) LANGUAGE plpgsql ${PLANNER} AS $$
DECLARE
  list jsonb := CASE jsonb_typeof(jobs) WHEN 'array' THEN jobs ELSE jsonb_build_array(jobs) END;
  job jsonb;
  i int := 0;
  ids uuid[];
  found_id uuid;
  is_new boolean;
BEGIN
  IF expected IS NOT NULL THEN
    IF expected <> database_identity() THEN RAISE EXCEPTION 'the transaction is on another database' USING ERRCODE = 'ORK01'; END IF;
    -- Holds for a statement without parameters.
    IF now() = statement_timestamp() THEN RAISE EXCEPTION 'there is no transaction' USING ERRCODE = 'ORK02'; END IF;
  END IF;
  PERFORM enqueue_check(e.job) FROM jsonb_array_elements(list) AS e (job);
  PERFORM pg_notify(left('ork_' || current_schema(), 63), 'sql');
  IF list @? '$[*].idempotency_key ? (@ != null)' THEN
    FOR job IN SELECT e.job FROM jsonb_array_elements(list) WITH ORDINALITY AS e (job, p) ORDER BY e.p LOOP
      i := i + 1;
      SELECT j.id INTO found_id FROM jobs j WHERE j.name = job ->> 'name' AND j.key = job ->> 'idempotency_key';
      is_new := found_id IS NULL;
      IF is_new THEN
        BEGIN
          ids := enqueue_new(jsonb_build_array(job), payloads[i:i]);
          found_id := ids[1];
        EXCEPTION WHEN unique_violation THEN
          -- Another transaction has committed the same key meanwhile.
          SELECT j.id INTO found_id FROM jobs j WHERE j.name = job ->> 'name' AND j.key = job ->> 'idempotency_key';
          is_new := false;
          IF found_id IS NULL THEN RAISE; END IF;
        END;
      END IF;
      IF NOT is_new AND job ->> 'on_conflict' = 'error' THEN
        RAISE EXCEPTION 'the key is taken by job %', found_id USING ERRCODE = 'ORK03';
      END IF;
      RETURN QUERY SELECT j.id, is_new, CASE WHEN t.status IN ('dispatched', 'running') THEN 'RUNNING' ELSE j.status END, j.payload, t.attempt, t.error
        FROM jobs j JOIN tasks t ON t.id = j.task_id WHERE j.id = found_id;
    END LOOP;
  ELSIF jsonb_array_length(list) > 0 THEN
    ids := enqueue_new(list, payloads);
    RETURN QUERY SELECT n.id, true, 'READY'::text, NULL::text, 0, NULL::text FROM unnest(ids) WITH ORDINALITY AS n (id, p) ORDER BY n.p;
  END IF;
END $$;
`

/** Records the result of a step, last in a transaction. Returns false for a stale attempt, and for a step that has a result. */
const COMPLETE = `
CREATE FUNCTION complete(task bigint, attempt uuid, output text, step text DEFAULT '', occurrence int DEFAULT 0,
  output_key text DEFAULT NULL, output_bytes bigint DEFAULT NULL, started_at timestamptz DEFAULT now(), "position" int DEFAULT 0)
RETURNS boolean LANGUAGE plpgsql ${PLANNER} AS $$
BEGIN
  IF now() = statement_timestamp() THEN RAISE EXCEPTION 'the transaction has ended before its function' USING ERRCODE = 'ORK02'; END IF;
  INSERT INTO steps AS s (task_id, name, occurrence, position, kind, state, failures, output, output_key, output_bytes, details, started_at, finished_at)
  SELECT t.id, $4, $5, $9, 'tx', 'success', 0, $3, $6, $7, 'null', $8, clock_timestamp() FROM tasks t
  WHERE t.id = $1 AND t.attempt_id = $2 AND t.status IN ('dispatched', 'running') AND t.waiting_on IS NULL
  ON CONFLICT ON CONSTRAINT steps_pkey DO UPDATE SET state = 'success', output = excluded.output, output_key = excluded.output_key,
    output_bytes = excluded.output_bytes, error = NULL, details = 'null', finished_at = excluded.finished_at WHERE s.state = 'waiting';
  RETURN FOUND;
END $$;
`

/** Tells databases apart. A copy of one has another name. */
const IDENTITY = `
DO $do$ BEGIN
  EXECUTE format('CREATE FUNCTION database_identity() RETURNS text LANGUAGE sql STABLE AS $$ SELECT %L || current_database() $$',
    gen_random_uuid()::text || ' ');
END $do$;
`

export const TRANSACTIONS = `${IDENTITY}${INSERT_JOBS}${CHECKS}${ENQUEUE_NEW}${ENQUEUE}${COMPLETE}`
