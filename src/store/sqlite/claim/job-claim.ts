// The part of a job that its claim carries.

import { claimedJob, DELETED_JOB } from "../../shared/job-rows.ts"
import type { ClaimedJob } from "../../contract/claim.ts"
import type { Session } from "../tx.ts"

const READ = "SELECT id, name, queue, payload, retry_policy, task, settings, created_at FROM jobs WHERE task_id = ?"

/** Returns null when the job was deleted. */
export const readJobClaim = (session: Session, row: number): { job: ClaimedJob; createdAt: string } | null => {
  const found = session.db.get<[string, string, string, string, string, string | null, string | null, string]>(READ, row)
  if (found === undefined) return null
  const [id, name, queue, payload, retry_policy, task, settings, createdAt] = found
  return { job: claimedJob({ id, name, queue, payload, retry_policy, task, settings }), createdAt }
}

/** Returns the job of an orphaned attempt. */
export const jobOfOrphan = (session: Session, row: number): ClaimedJob => readJobClaim(session, row)?.job ?? DELETED_JOB
