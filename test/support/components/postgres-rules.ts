// Invariants of every row, added to the schema of a test so that a statement that violates one fails. They are not part of the product's
// schema, because Postgres parses each CHECK again for every write, which made small batches a quarter slower.

import { READY } from "../../../src/store/postgres/claim/ready-queue.ts"
import { ask } from "./postgres.ts"

const RUNS = `status IN ('pending', 'running', 'success', 'failed', 'cancelled')
  AND (cancelling IS NULL OR cancelling IN ('cancel', 'timeout')) AND open_tasks >= 0 AND hooks_pending >= 0
  AND (finished_at IS NOT NULL) = (status IN ('success', 'failed', 'cancelled'))`

const TASKS = `upstream_pending >= 0 AND (waiting_on IS NULL OR status = 'running') AND CASE status
  WHEN 'pending' THEN (attempt_id IS NULL) = (holder IS NULL)
  WHEN 'dispatched' THEN holder IS NOT NULL AND attempt_id IS NOT NULL AND parked IS NULL AND available_at IS NULL
  WHEN 'running' THEN available_at IS NULL AND CASE WHEN waiting_on IS NULL THEN (holder IS NULL) = (kind <> 'task') AND parked IS NULL AND resume_at IS NULL
    ELSE attempt_id IS NOT NULL AND resume_lane IS NOT NULL END
  ELSE status IN ('success', 'failed', 'skipped', 'cancelled') AND holder IS NULL AND parked IS NULL AND available_at IS NULL
    AND finished_at IS NOT NULL
END`

/** Checks at commit, for every written row, that ready_queue and in_flight contain it exactly when it is ready or has a holder. */
const QUEUES = `
CREATE OR REPLACE FUNCTION check_queues() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  ready boolean;
  in_flight_now boolean;
BEGIN
  SELECT ${READY("t")}, t.holder IS NOT NULL INTO ready, in_flight_now FROM tasks t WHERE t.id = NEW.id;
  ready := COALESCE(ready, false);
  in_flight_now := COALESCE(in_flight_now, false);
  IF ready <> EXISTS (SELECT 1 FROM ready_queue q JOIN tasks t USING (id, lane, priority, workflow_id, run_seq) WHERE q.id = NEW.id)
    OR NOT ready AND EXISTS (SELECT 1 FROM ready_queue q WHERE q.id = NEW.id)
  THEN RAISE 'row % is % ready, which ready_queue contradicts', NEW.id, CASE WHEN ready THEN 'now' ELSE 'not' END;
  END IF;
  IF in_flight_now <> EXISTS (SELECT 1 FROM in_flight x WHERE x.id = NEW.id AND x.run_seq = NEW.run_seq)
  THEN RAISE 'row % is % in flight, which in_flight contradicts', NEW.id, CASE WHEN in_flight_now THEN 'now' ELSE 'not' END;
  END IF;
  RETURN NULL;
END $$;
CREATE INDEX IF NOT EXISTS ready_queue_id ON ready_queue (id);
CREATE INDEX IF NOT EXISTS in_flight_id ON in_flight (id);
DROP TRIGGER IF EXISTS check_queues ON tasks;
CREATE CONSTRAINT TRIGGER check_queues AFTER INSERT OR UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION check_queues()`

const ENFORCE = (table: string, rule: string): string =>
  `ALTER TABLE ${table} DROP CONSTRAINT IF EXISTS possible, ADD CONSTRAINT possible CHECK (${rule})`

/** Adds the invariants to a migrated schema. May be repeated. */
export const enforceRules = async (url: string, schema: string): Promise<void> => {
  await ask(url, `SET search_path TO "${schema}"; ${ENFORCE("runs", RUNS)}; ${ENFORCE("tasks", TASKS)}; ${QUEUES}`)
}
