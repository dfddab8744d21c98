// The rows that the steps of a batch speak of.

import type { Fence } from "../../../core/model/change.ts"
import type { AttemptId } from "../../../core/model/ids.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import { arrayParam } from "../connection/array-params.ts"
import type { Task } from "./changes.ts"
import type { AttemptChanges } from "./coalesce-changes.ts"
import type { InFlightAttempt, Cache } from "../cache/cache.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const HELD = statement(
  "held",
  `SELECT t.id AS row, t.attempt_id AS "attemptId", t.run_seq AS "runSeq", COALESCE(r.id::text, '') AS "runId",
     COALESCE(r.private, false) AS private, r.root_run_id AS "rootRunId", t.waiting_on IS NOT NULL AS waiting, t.workflow_id AS "workflowId", COALESCE(r.version_id, 0) AS "versionId", t.node, t.path,
     t.kind, t.lane, t.attempt, t.limits, t.status, COALESCE(r.generation, 0) AS generation, COALESCE(r.priority, 0) AS priority
   FROM unnest($1::bigint[], $2::uuid[]) AS c (id, attempt_id)
   JOIN tasks t ON t.id = c.id AND t.attempt_id = c.attempt_id LEFT JOIN runs r ON r.seq = t.run_seq`,
)

/** What the store gave out it knows; the rest (another's, or from before a restart) it reads. */
export const findHeld = async (
  tx: SqlRunner,
  memory: Cache,
  steps: readonly AttemptChanges[],
): Promise<{ tasks: Task[]; lost: Fence[] }> => {
  const found = new Map<AttemptId, InFlightAttempt>()
  const unknown: Fence[] = []
  for (const { fence } of steps) {
    const held = memory.inFlight.get(fence.attemptId)
    if (held === undefined) unknown.push(fence)
    else found.set(fence.attemptId, held)
  }
  if (unknown.length > 0) {
    const values = [arrayParam(unknown.map(({ row }) => row)), arrayParam(unknown.map(({ attemptId }) => attemptId))]
    type Found = Omit<InFlightAttempt, "gate" | "started"> & { status: TaskStatus; waiting: boolean }
    for (const { status, waiting, ...row } of await tx.run<Found>(HELD, values))
      found.set(row.attemptId, { ...row, gate: status === "pending" || waiting, started: status === "running" })
  }
  const tasks: Task[] = []
  const lost: Fence[] = []
  for (const step of steps) {
    const held = found.get(step.fence.attemptId)
    if (held === undefined || held.row !== step.fence.row) lost.push(step.fence)
    else tasks.push({ held, step })
  }
  return { tasks, lost }
}
