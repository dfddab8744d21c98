// Workflows and their versions. A version is known by the hash of what was compiled; the same again changes nothing.

import type { CompiledWorkflow } from "../../core/workflow.ts"
import type { StoredVersion } from "../store.ts"
import type { Tx } from "./tx.ts"

const PUT_WORKFLOW = "INSERT INTO workflows (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"

const WORKFLOW = "SELECT id FROM workflows WHERE name = ?"

const VERSION = "SELECT id, version FROM versions WHERE workflow_id = ? AND hash = ?"

const PUT_VERSION = `
INSERT INTO versions (workflow_id, version, hash, source, compiled, created_at)
SELECT ?1, coalesce(max(version), 0) + 1, ?2, ?3, ?4, ?5 FROM versions WHERE workflow_id = ?1
RETURNING id, version`

const DEPLOY = "UPDATE workflows SET deployed_version = ? WHERE id = ?"

export const putWorkflow = (
  tx: Tx,
  { compiled, hash, source, deploy }: { compiled: CompiledWorkflow; hash: string; source: string; deploy: boolean },
): StoredVersion => {
  const fresh = tx.db.run(PUT_WORKFLOW, compiled.name, tx.at) === 1
  const [workflowId] = tx.db.get<[number]>(WORKFLOW, compiled.name)!
  const known = tx.db.get<[number, number]>(VERSION, workflowId, hash)
  const [versionId, version] =
    known ?? tx.db.get<[number, number]>(PUT_VERSION, workflowId, hash, source, JSON.stringify(compiled), tx.at)!
  if (deploy) tx.db.run(DEPLOY, versionId, workflowId)
  return { workflowId, versionId, version, outcome: fresh ? "new" : known === undefined ? "new_version" : "same" }
}
