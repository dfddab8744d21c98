// Fills a database with finished runs of 100 tasks each, in the form that real runs leave.

import { DatabaseSync } from "node:sqlite"
import pg from "pg"
import { layered, put } from "./support.ts"
import type { Store } from "../src/store/contract/store.ts"

const RUNS = `
INSERT INTO runs (id, workflow_id, version_id, status, tasks_total, tasks_success, "trigger", params, priority, private,
                  created_at, started_at, finished_at)
SELECT RUN_ID, WORKFLOW, VERSION, 'success', 100, 100, 'manual', '{}', 5, FALSE,
       '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:01.000Z'
FROM SERIES_RUNS`

const TASKS = `
INSERT INTO tasks (run_seq, node, path, kind, status, upstream_pending, lane, priority, workflow_id, attempt_id, attempt, worker,
                   dispatched_at, started_at, finished_at, output, last_attempt_state)
SELECT runs.seq, SERIES_NODE, '', 'task', 'success', 0, 'q:default', 5, runs.workflow_id, ATTEMPT_ID, 1, 'bench',
       '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:01.000Z', '{"ok":true}', 'success'
FROM runs, SERIES_TASKS WHERE runs.created_at = '2026-01-01T00:00:00.000Z'`

export const fillHistory = async (store: Store, url: string, tasks: number): Promise<void> => {
  const { workflowId, versionId } = await put(store, layered())
  const runs = Math.ceil(tasks / 100)
  const fill = (text: string, words: { [word: string]: string }): string =>
    Object.entries({ WORKFLOW: String(workflowId), VERSION: String(versionId), ...words }).reduce(
      (sql, [word, value]) => sql.replace(new RegExp(`\\b${word}\\b`), value),
      text,
    )
  if (store.kind === "sqlite") {
    const series = (name: string, from: number, to: number): string =>
      `(WITH RECURSIVE s(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM s WHERE i < ${to}) SELECT i FROM s) ${name}`
    const id = (number: string): string => `printf('00000000-0000-7000-8000-%012x', ${number})`
    const db = new DatabaseSync(url)
    db.exec("PRAGMA busy_timeout = 60000; PRAGMA synchronous = OFF; BEGIN IMMEDIATE")
    db.exec(fill(RUNS, { RUN_ID: id("r.i"), SERIES_RUNS: series("r", 1, runs) }))
    const attempt = id("runs.seq * 100 + n.i")
    db.exec(fill(TASKS, { SERIES_NODE: "n.i", ATTEMPT_ID: attempt, SERIES_TASKS: series("n", 0, 99) }))
    db.exec("UPDATE tasks SET padding = NULL; COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return
  }
  const client = new pg.Client(url)
  await client.connect()
  await client.query("SET search_path = ork; SET synchronous_commit = off")
  await client.query(fill(RUNS, { RUN_ID: "gen_random_uuid()", SERIES_RUNS: `generate_series(1, ${runs}) r` }))
  // Updates of real runs use up the free space of a page, so that it accepts no new rows: two thirds of it are full.
  const { rows } = await client.query<{ factor: string }>(
    "SELECT substring(o FROM '\\d+') AS factor FROM pg_class, unnest(reloptions) o WHERE oid = 'tasks'::regclass AND o LIKE 'fillfactor=%'",
  )
  await client.query("ALTER TABLE tasks SET (fillfactor = 62)")
  await client.query(
    fill(TASKS, { SERIES_NODE: "n", ATTEMPT_ID: "gen_random_uuid()", SERIES_TASKS: "generate_series(0, 99) n" }),
  )
  await client.query(`ALTER TABLE tasks SET (fillfactor = ${rows[0]!.factor})`)
  for (const statement of ["VACUUM ANALYZE tasks", "VACUUM ANALYZE runs", "CHECKPOINT"]) await client.query(statement)
  await client.end()
}
