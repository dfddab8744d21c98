// Stores workflows and their versions. A version is identified by the hash of its compiled form; storing it again changes nothing.

import type { NewVersion, StoredVersion } from "../../contract/store.ts"
import { putSchedules, removeSchedules, pauseSchedules, resumeSchedules } from "./schedules.ts"
import { checkTriggers, pauseTriggers, putTriggers, removeTriggers } from "./triggers.ts"
import type { Database } from "../connection/database.ts"
import type { Tx } from "../tx.ts"

const PUT_WORKFLOW = "INSERT INTO workflows (name, created_at, updated_at) VALUES (?1, ?2, ?2) ON CONFLICT (name) DO NOTHING"

const WORKFLOW = "SELECT id, deployed_version, paused FROM workflows WHERE name = ?"

const VERSION = "SELECT id, version FROM versions WHERE workflow_id = ? AND hash = ?"

const VERSION_NUMBER = "SELECT version FROM versions WHERE id = ?"

const PUT_VERSION = `
INSERT INTO versions (workflow_id, version, hash, source, compiled, bundle, created_at, created_by)
SELECT ?1, coalesce(max(version), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7 FROM versions WHERE workflow_id = ?1
RETURNING id, version`

const DEPLOY = `
UPDATE workflows SET deployed_version = ?1, tags = ?2, updated_at = iif(deployed_version IS ?1, updated_at, ?3) WHERE id = ?4`

export const putWorkflow = (tx: Tx, input: NewVersion): StoredVersion => {
  const { compiled, hash, source, deploy } = input
  const isNew = tx.db.run(PUT_WORKFLOW, compiled.name, tx.at) === 1
  const [workflowId, deployed, paused] = tx.db.get<[number, number | null, number]>(WORKFLOW, compiled.name)!
  if (deploy && input.ifNew === true && deployed !== null) {
    const [version] = tx.db.get<[number]>(VERSION_NUMBER, deployed)!
    return { workflowId, versionId: deployed, version, outcome: "exists" }
  }
  if (deploy) checkTriggers(tx, compiled)
  const existing = tx.db.get<[number, number]>(VERSION, workflowId, hash)
  const columns = [hash, source, JSON.stringify(compiled), compiled.bundle ?? null, tx.at, input.createdBy ?? null]
  const [versionId, version] = existing ?? tx.db.get<[number, number]>(PUT_VERSION, workflowId, ...columns)!
  if (deploy) {
    tx.db.run(DEPLOY, versionId, JSON.stringify(compiled.tags), tx.at, workflowId)
    const { nextAt = [], firstAt = nextAt } = input
    const active = paused === 0
    putSchedules(tx, { workflowId, versionId, active, specs: compiled.schedules, nextAt, firstAt })
    putTriggers(tx, { workflowId, versionId, active, specs: compiled.triggers ?? [] })
    tx.wake.noteWorkLeft()
  }
  const isFirst = isNew || (deploy && deployed === null)
  return { workflowId, versionId, version, outcome: isFirst ? "new" : existing === undefined ? "new_version" : "same" }
}

const BUNDLES_IN_USE = "SELECT DISTINCT bundle FROM versions WHERE bundle IN (SELECT value FROM json_each(?))"

export const bundlesInUse = (db: Database, hashes: string[]): string[] =>
  db.all<[string]>(BUNDLES_IN_USE, JSON.stringify(hashes)).map(([hash]) => hash)

const UNDEPLOY = "UPDATE workflows SET deployed_version = NULL, paused = 0, updated_at = ? WHERE id = ?"

export const removeWorkflow = (tx: Tx, name: string): boolean => {
  const found = deployedOf(tx, name)
  if (found === null) return false
  tx.db.run(UNDEPLOY, tx.at, found)
  removeSchedules(tx, found)
  removeTriggers(tx, found)
  tx.wake.noteWorkLeft()
  return true
}

const PAUSE = "UPDATE workflows SET paused = ? WHERE id = ?"

export const setWorkflowPaused = (
  tx: Tx,
  { name, paused, nextAt }: { name: string; paused: boolean; nextAt: (string | null)[] },
): boolean => {
  const found = deployedOf(tx, name)
  if (found === null) return false
  tx.db.run(PAUSE, paused ? 1 : 0, found)
  if (paused) pauseSchedules(tx, found)
  else resumeSchedules(tx, found, nextAt)
  pauseTriggers(tx, found, paused)
  tx.wake.noteWorkLeft()
  return true
}

const deployedOf = (tx: Tx, name: string): number | null => {
  const found = tx.db.get<[number, number | null]>(WORKFLOW, name)
  return found === undefined || found[1] === null ? null : found[0]
}
