// Immutable data of runs, cached: consecutive transactions mostly concern the same runs.

import { BoundedMap } from "../../../core/values/bounded-map.ts"
import { causeOf } from "../../../core/model/cause.ts"
import type { RunId } from "../../../core/model/ids.ts"
import type { JsonObject } from "../../../core/values/json.ts"
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
SELECT r.seq, r.id, w.name AS workflow, r.workflow_id AS "workflowId", r.version_id AS "versionId", r."trigger", r.cause, r.params, r.priority,
  r.logical_date AS "logicalDate", r.created_at AS "createdAt", r.private, r.working_dir AS "workingDir", r.timezone,
  r.root_run_id AS "rootRunId", r.depth
FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE r.seq = ?`

type Columns = Omit<RunInfo, "params" | "cause" | "private"> & { params: string; cause: string | null; private: number }

export class RunInfoCache {
  readonly #db: Database
  readonly #cache = new BoundedMap<number, RunInfo>(MAX_CACHED)

  constructor(db: Database) {
    this.#db = db
  }

  get(seq: number): RunInfo {
    const cached = this.#cache.get(seq)
    if (cached !== undefined) return cached
    const found = this.#db.find<Columns>(READ, seq)
    if (found === undefined) throw new NotFound(`there is no run ${seq} in ${this.#db.where}`)
    const run: RunInfo = {
      ...found,
      params: JSON.parse(found.params) as JsonObject,
      cause: causeOf(found.cause),
      private: found.private === 1,
    }
    this.#cache.set(seq, run)
    return run
  }

  clear(): void {
    this.#cache.clear()
  }
}
