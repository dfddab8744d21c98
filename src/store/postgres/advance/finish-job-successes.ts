// Finishes successful jobs under no limit, all of a batch in one statement. Nothing of them is read beforehand: what their end needs is
// known since their claim. When somebody has changed one of them meanwhile, the caller rolls the transaction back (OutdatedPlan) and
// repeats it with `lockAndAmendJobs` and `finishJobs` (jobs-in-turn.ts).

import { queueOfLane } from "../../../core/routing/lanes.ts"
import { isJobRow } from "../../shared/job-rows.ts"
import type { QueueLimit } from "../claim/queue-limits.ts"
import { deleteFrom } from "../claim/ready-queue.ts"
import { statement } from "../connection/statement.ts"
import { NOW } from "../connection/store-clock.ts"
import type { Tx } from "../tx.ts"
import type { AttemptUpdate } from "./apply-changes.ts"
import { type Finish, finishParams, type FinishResult, FREED_QUEUE_LIMITS, NOTHING_FINISHED } from "./finish.ts"
import { OutdatedPlan, ROW_ESTIMATE, SUCCESS } from "./finish-successes.ts"

/** `unchanged`: every fence held, and no job was renamed, moved to another queue, deleted or asked to stop since its claim. */
const FINISH_JOB_SUCCESSES = statement(
  "finish_job_successes",
  `WITH finished AS (
     ${SUCCESS("")}
   ), not_in_flight AS (
     ${deleteFrom("in_flight", "finished")}
   ), completed AS (
     UPDATE jobs j SET status = 'COMPLETED', updated_at = ${NOW}
     FROM (SELECT * FROM unnest(:rows::bigint[], :names::text[], :queues::text[]) AS c (id, name, queue) ${ROW_ESTIMATE("rows")}) c
     WHERE j.task_id = c.id AND j.name = c.name AND j.queue = c.queue RETURNING j.task_id
   )
   SELECT (SELECT count(*) FROM finished) = cardinality(:rows) AND (SELECT count(*) FROM completed) = cardinality(:rows)
       AND NOT EXISTS (SELECT 1 FROM stop_requests WHERE task_id = ANY (:rows)) AS unchanged,
     ${FREED_QUEUE_LIMITS} AS queue_limits`,
)

const isJobSuccess = ({ inFlight, attempt: { last } }: AttemptUpdate): boolean =>
  isJobRow(inFlight.runSeq) &&
  typeof inFlight.jobName === "string" &&
  inFlight.limits === null &&
  last?.kind === "finish" &&
  last.status === "success" &&
  last.result.error === undefined

/** Returns whether the statement can finish the rows of all these updates. */
export const areJobSuccesses = (updates: readonly AttemptUpdate[]): boolean => updates.length > 0 && updates.every(isJobSuccess)

/** Finishes rows that the caller has locked. Sends its statement before it returns. Throws OutdatedPlan. */
export const finishJobSuccesses = async (
  tx: Tx,
  finishes: readonly Finish[],
  { freedLimitKeys }: { freedLimitKeys: readonly string[] },
): Promise<FinishResult> => {
  const [reply] = await tx.run<{ unchanged: boolean; queue_limits: QueueLimit[] | null }>(FINISH_JOB_SUCCESSES, {
    ...finishParams(finishes),
    names: finishes.map(({ inFlight }) => inFlight.jobName!),
    queues: finishes.map(({ inFlight }) => queueOfLane(inFlight.lane)),
    freedLimitKeys,
  })
  const { unchanged, queue_limits } = reply!
  if (!unchanged) throw new OutdatedPlan()
  return {
    ...NOTHING_FINISHED,
    finished: new Set(finishes.map(({ inFlight }) => inFlight.attemptId)),
    queueLimits: queue_limits ?? [],
  }
}
