// A job's status follows its row: every change of it is written beside the job, for search, and told.

import type { JobStatus } from "../../../core/rules/jobs.ts"
import { NO_RUN } from "../../shared/event-codec.ts"
import { jobStatus } from "../../shared/job-rows.ts"
import type { TaskEvent } from "../advance/events.ts"
import type { Tx } from "../connection/tx.ts"

const MOVE = "UPDATE jobs SET status = ?, updated_at = ? WHERE id = ?"

/** A job that was deleted meanwhile is not told of any more. */
export const moveJob = (
  tx: Tx,
  id: string,
  status: JobStatus,
  told: Partial<Pick<TaskEvent, "at" | "error" | "availableAt">>,
): void => {
  if (tx.db.run(MOVE, status, tx.at, id) === 0) return
  emitJob(tx, id, status, told)
}

export const emitJob = (
  tx: Tx,
  jobId: string,
  status: JobStatus,
  told: Partial<Pick<TaskEvent, "at" | "error" | "availableAt">>,
): void => {
  tx.events.push({
    type: "job",
    runId: NO_RUN,
    jobId,
    status,
    at: told.at ?? tx.at,
    ...(told.error !== undefined && { error: told.error }),
    ...(told.availableAt !== undefined && { availableAt: told.availableAt }),
  })
}

/** RUNNING begins with the claim: the start itself changes nothing. */
export const followRow = (tx: Tx, id: string, told: TaskEvent): void => {
  if (told.status !== "running") moveJob(tx, id, jobStatus(told.status), told)
}
