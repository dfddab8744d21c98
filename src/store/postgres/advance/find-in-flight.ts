// Finds the rows of a batch's changes.

import type { Fence } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import type { CachedAttempt } from "../cache/cache.ts"
import { statement } from "../connection/statement.ts"
import type { Tx } from "../tx.ts"
import type { AttemptUpdate } from "./apply-changes.ts"
import type { AttemptChanges } from "./coalesce-changes.ts"

const FIND = statement(
  "find_in_flight",
  `SELECT t.id AS row, t.attempt_id AS "attemptId", t.run_seq AS "runSeq", COALESCE(r.id::text, '') AS "runId",
     COALESCE(r.private, false) AS private, r.root_run_id AS "rootRunId", t.waiting_on IS NOT NULL AS waiting,
     t.workflow_id AS "workflowId", COALESCE(r.version_id, 0) AS "versionId", t.node, t.path, t.kind, t.lane, t.attempt, t.limits,
     t.status, COALESCE(r.generation, 0) AS generation, COALESCE(r.priority, 0) AS priority
   FROM unnest(:rows::bigint[], :attempts::uuid[]) AS c (id, attempt_id)
   JOIN tasks t ON t.id = c.id AND t.attempt_id = c.attempt_id LEFT JOIN runs r ON r.seq = t.run_seq`,
)

type FoundRow = Omit<CachedAttempt, "usesSlots" | "started" | "jobName"> & { status: TaskStatus; waiting: boolean }

/** Finds rows in the cache; reads those that another store claimed, or this one before a restart. `lost`: fences without a row. */
export const findInFlight = async (
  tx: Tx,
  attempts: readonly AttemptChanges[],
): Promise<{ updates: AttemptUpdate[]; lost: Fence[] }> => {
  const found = new Map<AttemptId, CachedAttempt>()
  const unknown: Fence[] = []
  for (const { fence } of attempts) {
    const cached = tx.cache.inFlight.get(fence.attemptId)
    if (cached === undefined) unknown.push(fence)
    else found.set(fence.attemptId, cached)
  }
  if (unknown.length > 0) {
    const params = { rows: unknown.map(({ row }) => row), attempts: unknown.map(({ attemptId }) => attemptId) }
    for (const { status, waiting, ...row } of await tx.run<FoundRow>(FIND, params))
      found.set(row.attemptId, { ...row, usesSlots: status !== "pending" && !waiting, started: status === "running" })
  }
  const updates: AttemptUpdate[] = []
  const lost: Fence[] = []
  for (const attempt of attempts) {
    const inFlight = found.get(attempt.fence.attemptId)
    if (inFlight === undefined || inFlight.row !== attempt.fence.row) lost.push(attempt.fence)
    else updates.push({ inFlight, attempt })
  }
  return { updates, lost }
}
