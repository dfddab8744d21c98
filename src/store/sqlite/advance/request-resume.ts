// Requests to resume a row.

import type { Tx } from "../tx.ts"

const RESUME = `
UPDATE tasks SET resume_requests = coalesce(resume_requests, 0) + 1,
  resume_at = CASE WHEN waiting_on IS NOT NULL AND parked IS NULL THEN ? ELSE resume_at END
WHERE id = ?`

/** Resumes a row if it waits: its child run has closed, or a signal was sent. Counts the request, which an attempt in flight has to see. */
export const requestResume = (tx: Tx, row: number): void => {
  tx.db.run(RESUME, tx.at, row)
}
