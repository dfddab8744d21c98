// What must be true of every row, written into the schema of a test, so that a statement that breaks it fails there. Not part of
// the schema itself: Postgres parses each CHECK again for every statement that writes, which made small turns a quarter slower.

import { Client } from "pg"

const RUNS = `status IN ('pending', 'running', 'success', 'failed', 'cancelled')
  AND (cancelling IS NULL OR cancelling IN ('cancel', 'timeout')) AND open >= 0 AND hooks_left >= 0
  AND (finished_at IS NOT NULL) = (status IN ('success', 'failed', 'cancelled'))`

const TASKS = `upstream_left >= 0 AND (waits IS NULL OR status = 'running') AND CASE status
  WHEN 'pending' THEN (attempt_id IS NULL) = (holder IS NULL)
  WHEN 'dispatched' THEN holder IS NOT NULL AND attempt_id IS NOT NULL AND parked IS NULL
  WHEN 'running' THEN CASE WHEN waits IS NULL THEN (holder IS NULL) = (kind <> 'task') AND parked IS NULL AND wake_at IS NULL
    ELSE attempt_id IS NOT NULL AND wake_lane IS NOT NULL END
  ELSE status IN ('success', 'failed', 'skipped', 'cancelled') AND holder IS NULL AND parked IS NULL AND available_at IS NULL
    AND finished_at IS NOT NULL
END`

const ENFORCE = (table: string, rule: string): string =>
  `ALTER TABLE ${table} DROP CONSTRAINT IF EXISTS possible, ADD CONSTRAINT possible CHECK (${rule})`

/** For a schema that was migrated; any number of times. */
export const enforceRules = async (url: string, schema: string): Promise<void> => {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(`SET search_path TO "${schema}"; ${ENFORCE("runs", RUNS)}; ${ENFORCE("tasks", TASKS)}`)
  } finally {
    await client.end()
  }
}
