// Triggers on files and objects. Recorded files are kept by workflow and pattern, so that a trigger may move within the definition.

import type { RunRow } from "../../contract/store.ts"
import type { RecordedFile, FileVersion, PathTriggerRow, PathTriggerStore, WatchedPath } from "../../contract/triggers.ts"
import { patternsOf, TRIGGER_COLUMNS, type TriggerColumns, triggerOf } from "../../shared/triggers.ts"
import { createRuns } from "../runs/create.ts"
import type { Access, Tx } from "../tx.ts"
import type { TriggerSpec } from "../../../core/model/workflow.ts"

const ADD = "INSERT INTO trigger_paths (workflow_id, pattern, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"

const REMOVE_PATHS = "DELETE FROM trigger_paths WHERE workflow_id = ? AND pattern NOT IN (SELECT value FROM json_each(?))"

const REMOVE_FILES = "DELETE FROM trigger_files WHERE workflow_id = ? AND pattern NOT IN (SELECT value FROM json_each(?))"

/** Watches the paths of a deployed version, new ones from now on, and forgets others. */
export const putPaths = (tx: Tx, workflowId: number, specs: readonly TriggerSpec[]): void => {
  const patterns = patternsOf(specs)
  const kept = JSON.stringify(patterns)
  tx.db.run(REMOVE_PATHS, workflowId, kept)
  tx.db.run(REMOVE_FILES, workflowId, kept)
  for (const pattern of patterns) tx.db.run(ADD, workflowId, pattern, tx.at)
}

const WATCHED = `
${TRIGGER_COLUMNS.replace("t.problem", "t.problem, p.since")}
  JOIN trigger_paths p ON p.workflow_id = t.workflow_id AND p.pattern = json_extract(t.spec, '$.path')
WHERE t.active = 1 ORDER BY t.id`

type WatchedColumns = TriggerColumns & { since: string }

const UNRECORDED = `
SELECT json_extract(f.value, '$.path') AS path, json_extract(f.value, '$.version') AS version FROM json_each(?3) f
WHERE NOT EXISTS (
  SELECT 1 FROM trigger_files t WHERE t.workflow_id = ?1 AND t.pattern = ?2
    AND t.path = json_extract(f.value, '$.path') AND t.version = json_extract(f.value, '$.version'))
ORDER BY f.key`

const RECORD = `
INSERT INTO trigger_files (workflow_id, pattern, path, version, run_id) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

const SET_PROBLEM = "UPDATE triggers SET problem = ? WHERE id = ? AND problem IS NOT ?"

const record = (tx: Tx, { id, workflowId, pattern }: WatchedPath, { path, version, outcome }: RecordedFile): RunRow | null => {
  const run = "run" in outcome ? outcome.run : null
  if (tx.db.run(RECORD, workflowId, pattern, path, version, run?.id ?? null) === 0) return null
  const problem = "problem" in outcome ? outcome.problem : null
  tx.db.run(SET_PROBLEM, problem, id, problem)
  return run === null ? null : createRuns(tx, [run])[0]!.run
}

export const pathTriggerStore = ({ read, write }: Access): PathTriggerStore => ({
  pathTriggers: () =>
    read(({ db }) =>
      db.list<WatchedColumns>(WATCHED).map(({ since, ...columns }) => ({ ...triggerOf(columns), since }) as PathTriggerRow),
    ),
  unrecordedFiles: ({ workflowId, pattern }, files) =>
    read(({ db }) => db.list<FileVersion>(UNRECORDED, workflowId, pattern, JSON.stringify(files))),
  recordFiles: (watched, files) => write((tx) => files.map((each) => record(tx, watched, each))),
  setTriggerProblem: (id, problem) => write((tx) => void tx.db.run(SET_PROBLEM, problem, id, problem)),
})
