// The backlog: jobs with the status READY. They can be claimed, wait for a time, or are parked. Their number does not grow with the history.

import { JOB_RUN_SEQ } from "../../shared/job-rows.ts"

/** The rows of the backlog, without duplicates; at most `limit` of each kind. */
export const BACKLOG_JOBS = (limit = "ALL"): string =>
  ["ready_queue WHERE", "tasks WHERE available_at IS NOT NULL AND", "tasks WHERE parked IS NOT NULL AND"]
    .map((source) => `(SELECT id FROM ${source} run_seq = ${JOB_RUN_SEQ} LIMIT ${limit})`)
    .join(" UNION ")
