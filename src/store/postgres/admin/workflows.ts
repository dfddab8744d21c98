// Workflows and their versions: stores, deploys, pauses and removes them.

import type { NewVersion, StoredVersion } from "../../contract/store.ts"
import { replaceNul } from "../connection/array-params.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import { checkTriggers, pauseTriggers, putTriggers, removeTriggers } from "./triggers.ts"
import { putSchedules, removeSchedules, pauseSchedules, resumeSchedules } from "./schedules.ts"

const PUT_WORKFLOW = statement(
  "put_workflow",
  `INSERT INTO workflows (name, created_at, updated_at)
   VALUES (:name, ${NOW}, ${NOW})
   ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id, deployed_version, paused`,
)
const FIND_VERSION = statement(
  "find_version",
  "SELECT id, version FROM versions WHERE workflow_id = :workflowId AND hash = :hash",
)
const ADD_VERSION = statement(
  "add_version",
  `INSERT INTO versions (workflow_id, version, hash, source, compiled, bundle, created_at, created_by)
   SELECT :workflowId, COALESCE(max(version), 0) + 1, :hash, :source, :compiled, :bundle, ${NOW}, :createdBy
   FROM versions WHERE workflow_id = :workflowId
   RETURNING id, version`,
)
const DEPLOY = statement(
  "deploy",
  `UPDATE workflows SET deployed_version = :versionId, tags = :tags,
     updated_at = CASE WHEN deployed_version = :versionId THEN updated_at ELSE ${NOW} END
   WHERE id = :workflowId`,
)
const VERSION_NUMBER = statement("version_number", "SELECT version FROM versions WHERE id = :versionId")

interface PutWorkflow {
  id: number
  deployed_version: number | null
  paused: boolean
}

/** Stores a version of a workflow, and deploys it. The upsert locks the workflow's row, so two deployments follow each other. */
export const putWorkflow = async (tx: Tx, input: NewVersion): Promise<StoredVersion> => {
  const { compiled, deploy } = input
  const [workflow] = (await tx.run<PutWorkflow>(PUT_WORKFLOW, { name: compiled.name })) as [PutWorkflow]
  const { id: workflowId, deployed_version: deployed, paused } = workflow
  if (deploy && input.ifNew === true && deployed !== null) {
    const [known] = await tx.run<{ version: number }>(VERSION_NUMBER, { versionId: deployed })
    return { workflowId, versionId: deployed, version: known!.version, outcome: "exists" }
  }
  if (deploy) await checkTriggers(tx, compiled)
  const [found] = await tx.run<{ id: number; version: number }>(FIND_VERSION, { workflowId, hash: input.hash })
  const { id: versionId, version } = found ?? (await addVersion(tx, workflowId, input))
  if (deploy) {
    await tx.run(DEPLOY, { workflowId, versionId, tags: JSON.stringify(compiled.tags) })
    const specs = compiled.schedules
    const { nextAt = [], firstAt = nextAt } = input
    await putSchedules(tx, { workflowId, versionId, active: !paused, specs, nextAt, firstAt })
    await putTriggers(tx, { workflowId, versionId, active: !paused, specs: compiled.triggers ?? [] })
  }
  tx.workflows.add(versionId, compiled)
  const first = (found === undefined && version === 1) || (deploy && deployed === null)
  return { workflowId, versionId, version, outcome: first ? "new" : found === undefined ? "new_version" : "same" }
}

const addVersion = async (
  tx: Tx,
  workflowId: number,
  { hash, source, compiled, createdBy = null }: NewVersion,
): Promise<{ id: number; version: number }> => {
  const [added] = await tx.run<{ id: number; version: number }>(ADD_VERSION, {
    workflowId,
    hash,
    source: replaceNul(source),
    compiled: JSON.stringify(compiled),
    bundle: compiled.bundle ?? null,
    createdBy,
  })
  return added!
}

const BUNDLES_IN_USE = statement("bundles_in_use", "SELECT DISTINCT bundle FROM versions WHERE bundle = ANY(:hashes::text[])")

export const bundlesInUse = async (connection: SqlRunner, hashes: string[]): Promise<string[]> =>
  (await connection.run<{ bundle: string }>(BUNDLES_IN_USE, { hashes })).map(({ bundle }) => bundle)

const UNDEPLOY = statement(
  "undeploy",
  `UPDATE workflows SET deployed_version = NULL, paused = false, updated_at = ${NOW}
   WHERE name = :name AND deployed_version IS NOT NULL RETURNING id`,
)

export const removeWorkflow = async (tx: Tx, name: string): Promise<boolean> => {
  const [found] = await tx.run<{ id: number }>(UNDEPLOY, { name })
  if (found === undefined) return false
  await removeSchedules(tx, found.id)
  await removeTriggers(tx, found.id)
  return true
}

const PAUSE = statement(
  "pause_workflow",
  "UPDATE workflows SET paused = :paused WHERE name = :name AND deployed_version IS NOT NULL RETURNING id",
)

export const setWorkflowPaused = async (
  tx: Tx,
  { name, paused, nextAt }: { name: string; paused: boolean; nextAt: (string | null)[] },
): Promise<boolean> => {
  const [found] = await tx.run<{ id: number }>(PAUSE, { name, paused })
  if (found === undefined) return false
  if (paused) await pauseSchedules(tx, found.id)
  else await resumeSchedules(tx, found.id, nextAt)
  await pauseTriggers(tx, found.id, paused)
  return true
}
