// What must be true of every row, written into the schema of a test, so that a statement that breaks it fails there. Not part of
// the schema itself: Postgres parses each CHECK again for every statement that writes, which made small turns a quarter slower.

import { READY } from "../../src/store/postgres/claim/ready-queue.ts"
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

/** Looked at when a transaction ends, of every row that it wrote: the lists beside `tasks` name it if, and only if, it belongs there. */
const LISTS = `
CREATE OR REPLACE FUNCTION lists_hold() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  ready boolean;
  held boolean;
BEGIN
  SELECT ${READY("t")}, t.holder IS NOT NULL INTO ready, held FROM tasks t WHERE t.id = NEW.id;
  ready := COALESCE(ready, false);
  held := COALESCE(held, false);
  IF ready <> EXISTS (SELECT 1 FROM ready_queue q JOIN tasks t USING (id, lane, priority, workflow_id, run_seq) WHERE q.id = NEW.id)
    OR NOT ready AND EXISTS (SELECT 1 FROM ready_queue q WHERE q.id = NEW.id)
  THEN RAISE 'row % is % ready, and the list of ready rows says otherwise', NEW.id, CASE WHEN ready THEN 'now' ELSE 'not' END;
  END IF;
  IF held <> EXISTS (SELECT 1 FROM in_flight x WHERE x.id = NEW.id AND x.run_seq = NEW.run_seq)
  THEN RAISE 'row % is % held, and the list of held rows says otherwise', NEW.id, CASE WHEN held THEN 'now' ELSE 'not' END;
  END IF;
  RETURN NULL;
END $$;
CREATE INDEX IF NOT EXISTS ready_rows_id ON ready_queue (id);
CREATE INDEX IF NOT EXISTS held_rows_id ON in_flight (id);
DROP TRIGGER IF EXISTS lists_hold ON tasks;
CREATE CONSTRAINT TRIGGER lists_hold AFTER INSERT OR UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION lists_hold()`

const ENFORCE = (table: string, rule: string): string =>
  `ALTER TABLE ${table} DROP CONSTRAINT IF EXISTS possible, ADD CONSTRAINT possible CHECK (${rule})`

/** For a schema that was migrated; any number of times. */
export const enforceRules = async (url: string, schema: string): Promise<void> => {
  await ask(url, `SET search_path TO "${schema}"; ${ENFORCE("runs", RUNS)}; ${ENFORCE("tasks", TASKS)}; ${LISTS}`)
}
