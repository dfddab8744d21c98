// Triggers on files and objects. Recorded files are kept by workflow and pattern, so that a trigger may move within the definition.

import type { TriggerSpec } from "../../../core/model/workflow.ts"
import type { RunRow } from "../../contract/store.ts"
import type { RecordedFile, FileVersion, PathTriggerRow, PathTriggerStore, WatchedPath } from "../../contract/triggers.ts"
import { patternsOf, TRIGGER_COLUMNS, type TriggerColumns, triggerOf } from "../../shared/triggers.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import { createRuns } from "../runs/create.ts"
import type { Access, Tx } from "../tx.ts"
import { lockWorkflows } from "../advance/close-runs.ts"

const ADD = statement(
  "trigger_paths_add",
  `INSERT INTO trigger_paths (workflow_id, pattern, since)
   SELECT :workflowId, p, ${NOW} FROM unnest(:patterns::text[]) AS p ON CONFLICT DO NOTHING`,
)

const REMOVE_PATHS = statement(
  "trigger_paths_remove",
  "DELETE FROM trigger_paths WHERE workflow_id = :workflowId AND pattern <> ALL (:patterns::text[])",
)

const REMOVE_FILES = statement(
  "trigger_files_remove",
  "DELETE FROM trigger_files WHERE workflow_id = :workflowId AND pattern <> ALL (:patterns::text[])",
)

/** Watches the paths of a deployed version, new ones from now on, and forgets others. */
export const putPaths = async (tx: SqlRunner, workflowId: number, specs: readonly TriggerSpec[]): Promise<void> => {
  const put = { workflowId, patterns: patternsOf(specs) }
  await tx.run(REMOVE_PATHS, put)
  await tx.run(REMOVE_FILES, put)
  if (put.patterns.length > 0) await tx.run(ADD, put)
}

const WATCHED = statement(
  "trigger_paths_watched",
  `${TRIGGER_COLUMNS.replace("t.problem", "t.problem, p.since")}
     JOIN trigger_paths p ON p.workflow_id = t.workflow_id AND p.pattern = t.spec::json ->> 'path'
   WHERE t.active ORDER BY t.id`,
)

type WatchedColumns = TriggerColumns & { since: string }

const UNRECORDED = statement(
  "trigger_files_unrecorded",
  `SELECT f.path, f.version FROM unnest(:paths::text[], :versions::text[]) WITH ORDINALITY AS f (path, version, number)
   WHERE NOT EXISTS (
     SELECT 1 FROM trigger_files t
     WHERE t.workflow_id = :workflowId::bigint AND t.pattern = :pattern AND t.path = f.path AND t.version = f.version)
   ORDER BY f.number`,
)

const RECORD = statement(
  "trigger_files_record",
  `INSERT INTO trigger_files (workflow_id, pattern, path, version, run_id)
   VALUES (:workflowId, :pattern, :path, :version, :runId::uuid) ON CONFLICT DO NOTHING RETURNING 1`,
)

const SET_PROBLEM = statement(
  "trigger_paths_set_problem",
  "UPDATE triggers SET problem = :problem::text WHERE id = :id AND problem IS DISTINCT FROM :problem",
)

const record = async (
  tx: Tx,
  { id, workflowId, pattern }: WatchedPath,
  { path, version, outcome }: RecordedFile,
): Promise<RunRow | null> => {
  const run = "run" in outcome ? outcome.run : null
  const inserted = await tx.run(RECORD, { workflowId, pattern, path, version, runId: run?.id ?? null })
  if (inserted.length === 0) return null
  await tx.run(SET_PROBLEM, { id, problem: "problem" in outcome ? outcome.problem : null })
  return run === null ? null : (await createRuns(tx, [run]))[0]!.run
}

export const pathTriggerStore = ({ read, write, writeAndNotify, workflows }: Access): PathTriggerStore => ({
  pathTriggers: () =>
    read(async (connection) =>
      (await connection.run<WatchedColumns>(WATCHED)).map(
        ({ since, ...columns }) => ({ ...triggerOf(columns), since }) as PathTriggerRow,
      ),
    ),
  unrecordedFiles: ({ workflowId, pattern }, files) =>
    read((connection) =>
      connection.run<FileVersion>(UNRECORDED, {
        workflowId,
        pattern,
        paths: files.map(({ path }) => path),
        versions: files.map(({ version }) => version),
      }),
    ),
  recordFiles: async (watched, files) => {
    await workflows.load(files.flatMap(({ outcome }) => ("run" in outcome ? outcome.run.versionId : [])))
    return writeAndNotify(async (tx) => {
      await lockWorkflows(tx, [watched.workflowId])
      const runs: (RunRow | null)[] = []
      for (const each of files) runs.push(await record(tx, watched, each))
      return runs
    })
  },
  setTriggerProblem: (id, problem) => write(async (tx) => void (await tx.run(SET_PROBLEM, { id, problem }))),
})
