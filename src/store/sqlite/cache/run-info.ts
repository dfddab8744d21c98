// Immutable data of runs, cached: consecutive transactions mostly concern the same runs.

import type { RunId } from "../../../core/model/ids.ts"
import type { JsonObject } from "../../../core/model/json.ts"
import type { ClaimedRun } from "../../contract/claim.ts"
import { NotFound } from "../../contract/errors.ts"
import type { Database } from "../connection/database.ts"

const MAX_CACHED = 4096

export interface RunInfo extends Omit<ClaimedRun, "status" | "cancelling" | "error"> {
  seq: number
  id: RunId
  workflowId: number
  versionId: number
}

const READ = `
SELECT r.id, w.name, r.workflow_id, r.version_id, r."trigger", r.params, r.priority, r.logical_date, r.created_at, r.private,
  r.working_dir, r.timezone, r.root_run_id, r.depth
FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE r.seq = ?`

type Columns = [
  RunId,
  string,
  number,
  number,
  string,
  string,
  number,
  string | null,
  string,
  number,
  string | null,
  string | null,
  RunId | null,
  number,
]

export class RunInfoCache {
  readonly #db: Database
  readonly #cache = new Map<number, RunInfo>()

  constructor(db: Database) {
    this.#db = db
  }

  get(seq: number): RunInfo {
    const cached = this.#cache.get(seq)
    if (cached !== undefined) return cached
    const found = this.#db.get<Columns>(READ, seq)
    if (found === undefined) throw new NotFound(`there is no run ${seq} in ${this.#db.where}`)
    const [
      id,
      workflow,
      workflowId,
      versionId,
      trigger,
      params,
      priority,
      logicalDate,
      createdAt,
      isPrivate,
      workingDir,
      timezone,
      rootRunId,
      depth,
    ] = found
    const run: RunInfo = {
      seq,
      id,
      workflow,
      workflowId,
      versionId,
      trigger,
      params: JSON.parse(params) as JsonObject,
      priority,
      logicalDate,
      createdAt,
      private: isPrivate === 1,
      workingDir,
      timezone,
      rootRunId,
      depth,
    }
    if (this.#cache.size >= MAX_CACHED) this.#cache.delete(this.#cache.keys().next().value!)
    this.#cache.set(seq, run)
    return run
  }

  clear(): void {
    this.#cache.clear()
  }
}
