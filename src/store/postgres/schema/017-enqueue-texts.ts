// `enqueue` checks the texts of a job as the API does: keys, groups and names have 1 to 255 characters, without control characters. The name
// of a function may end with a version.

const FIELDS = `'id', 'name', 'queue', 'function', 'task', 'payload', 'priority', 'retry', 'group', 'idempotency_key', 'on_conflict', 'run_at',
      'delay', 'timeout', 'expires', 'concurrency_key', 'concurrency_limit', 'limits'`

const TEXT = "must be a text of 1 to 255 characters without control characters"

const checkText = (field: string): string =>
  `IF job ->> '${field}' IS NOT NULL AND (jsonb_typeof(job -> '${field}') <> 'string'
    OR char_length(job ->> '${field}') NOT BETWEEN 1 AND 255 OR job ->> '${field}' ~ '[\\x01-\\x1f\\x7f]') THEN
    PERFORM enqueue_problem('${field}', '${TEXT}');
  END IF;`

export const ENQUEUE_TEXTS = `
CREATE OR REPLACE FUNCTION enqueue_check(job jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  field text;
BEGIN
  IF jsonb_typeof(job) IS DISTINCT FROM 'object' THEN PERFORM enqueue_problem('job', 'must be an object'); END IF;
  FOR field IN SELECT jsonb_object_keys(job) LOOP
    IF field NOT IN (${FIELDS}) THEN PERFORM enqueue_problem(field, 'is not a field of a job'); END IF;
  END LOOP;
  IF job ->> 'name' IS NULL THEN PERFORM enqueue_problem('name', '${TEXT}'); END IF;
  ${["name", "idempotency_key", "group", "concurrency_key"].map(checkText).join("\n  ")}
  IF COALESCE(job ->> 'queue', 'default') !~ '^[a-zA-Z0-9_]{1,64}$' THEN
    PERFORM enqueue_problem('queue', 'must be 1 to 64 letters, digits and underscores');
  END IF;
  IF COALESCE(job ->> 'function', 'f') !~ '^[A-Za-z_][A-Za-z0-9_.-]{0,63}(@[A-Za-z0-9_.-]{1,64})?$' THEN
    PERFORM enqueue_problem('function', 'must be at most 64 letters, digits, "_", "." and "-", beginning with a letter or "_"');
  END IF;
  IF COALESCE(job ->> 'priority', '5') !~ '^([1-9]|10)$' THEN
    PERFORM enqueue_problem('priority', 'must be a whole number from 1 to 10');
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
`
