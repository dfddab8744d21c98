// The backlog: jobs with the status READY. They can be claimed, wait for a time, or are parked. Their number does not grow with the history.

import { JOB_RUN_SEQ } from "../../shared/job-rows.ts"
import { READY } from "../claim/ready-queue.ts"

/** The rows of the backlog, without duplicates; at most `limit` of each kind, -1: all. */
export const BACKLOG_JOBS = (limit = "-1"): string =>
  [`tasks_ready WHERE ${READY}`, "tasks_timers WHERE available_at IS NOT NULL", "tasks_parked WHERE parked IS NOT NULL"]
    .map((rows) => `SELECT id FROM (SELECT id FROM tasks INDEXED BY ${rows} AND run_seq = ${JOB_RUN_SEQ} LIMIT ${limit})`)
    .join(" UNION ")
