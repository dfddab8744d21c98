// Reads what never changes of runs, through the cache.

import { causeOf } from "../../../core/model/cause.ts"
import type { JsonObject } from "../../../core/values/json.ts"
import type { Cache, RunInfo } from "./cache.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

const READ = statement(
  "run_info",
  `SELECT r.seq, r.id, w.name AS workflow, r.version_id AS "versionId", r.params, r.trigger, r.cause, r.priority, r.logical_date AS "logicalDate",
     r.created_at AS "createdAt", r.private, r.working_dir AS "workingDir", r.timezone, r.root_run_id AS "rootRunId", r.depth
   FROM runs r JOIN workflows w ON w.id = r.workflow_id WHERE r.seq = ANY (:runs::bigint[])`,
)

type Columns = Omit<RunInfo, "params" | "cause"> & { seq: number; params: string; cause: string | null }

/** Returns the runs by their number. Sends its statement before it returns. */
export const loadRuns = async (tx: SqlRunner & { cache: Cache }, seqs: Iterable<number>): Promise<Map<number, RunInfo>> => {
  const found = new Map<number, RunInfo>()
  const missing: number[] = []
  for (const seq of new Set(seqs)) {
    const cached = tx.cache.runs.get(seq)
    if (cached === undefined) missing.push(seq)
    else found.set(seq, cached)
  }
  if (missing.length === 0) return found
  const rows = await tx.run<Columns>(READ, { runs: missing })
  for (const { seq, params, cause, ...row } of rows) {
    const info = { ...row, params: JSON.parse(params) as JsonObject, cause: causeOf(cause) }
    found.set(seq, info)
    tx.cache.runs.set(seq, info)
  }
  return found
}
