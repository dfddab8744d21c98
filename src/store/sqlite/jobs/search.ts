// Searches jobs, newest first, then by id. It reads one page per matching status and priority by the index of the other filters and
// merges them, so that the cost of a page does not depend on the number of jobs. RUNNING jobs are found among the rows in flight.

import type { JobStatus } from "../../../core/rules/jobs/jobs.ts"
import type { JobFilter, JobRow, JobStore } from "../../contract/jobs.ts"
import { JOB_RUN_SEQ, planSearch, searchedStatuses } from "../../shared/job-rows.ts"
import type { Value } from "../connection/database.ts"
import { readJob } from "./reads.ts"
import type { Session } from "../tx.ts"

type Query = Parameters<JobStore["searchJobs"]>[0]
type FoundJob = [row: number, createdAt: string, id: string]

/**
 * Returns the index to use, with the conditions on its columns before the priority. A search by name checks the queue of each job that
 * it finds by the index: jobs of one name are mostly in one queue.
 */
const indexOf = ({ name, queue }: JobFilter): { index: string; where: string; values: string[] } => {
  const index =
    name !== undefined ? "jobs_of_name_by_status" : queue !== undefined ? "jobs_of_queue_by_status" : "jobs_by_status"
  const where = `${name === undefined ? "" : "name = ? AND"} ${queue === undefined ? "" : "queue = ? AND"} status = ? AND`
  return { index, where, values: [name, queue].filter((value) => value !== undefined) }
}

/** Jobs that are READY in the table and not in flight. */
const NOT_RUNNING = "AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = jobs.task_id AND t.holder IS NOT NULL)"

const RUNNING = `
SELECT j.task_id, j.created_at, j.id FROM tasks t INDEXED BY tasks_in_flight CROSS JOIN jobs j ON j.task_id = t.id
WHERE t.holder IS NOT NULL AND t.run_seq = ${JOB_RUN_SEQ} AND t.status <> 'pending'
  AND (?1 IS NULL OR j.name = ?1) AND (?2 IS NULL OR j.queue = ?2) AND j.priority >= ?3 AND j.priority <= ?4
  AND j.created_at >= ?5 AND (j.created_at < ?6 OR j.created_at = ?6 AND j.id > ?7)
ORDER BY j.created_at DESC, j.id LIMIT ?8 + 0`

export const searchJobs = (session: Session, query: Query): JobRow[] => {
  const { filter, limit } = query
  const { stored, running, ready } = searchedStatuses(filter)
  const { index, where, values } = indexOf(filter)
  const { priorities, createdBefore, ties } = planSearch(query)
  const upper = createdBefore ?? LATEST
  const lower = filter.createdAfter ?? ""
  const page = (status: JobStatus, priority: number): FoundJob[] => {
    const only = status === "READY" && !running ? NOT_RUNNING : ""
    const jobs = `SELECT task_id, created_at, id FROM jobs INDEXED BY ${index} WHERE ${where} priority = ?`
    const same = `${jobs} AND created_at = ? AND created_at >= ? AND id > ? ${only} ORDER BY id LIMIT ? + 0`
    const before = `${jobs} AND created_at < ? AND created_at >= ? ${only} ORDER BY created_at DESC, id LIMIT ? + 0`
    const those: Value[] = [...values, status, priority]
    const first = ties === null ? [] : session.db.all<FoundJob>(same, ...those, upper, lower, ties.id, limit)
    return [...first, ...session.db.all<FoundJob>(before, ...those, upper, lower, limit - first.length)]
  }
  const inFlight = (): FoundJob[] => {
    const { name = null, queue = null } = filter
    const [min, max] = [priorities[0] ?? 1, priorities.at(-1) ?? 0]
    return session.db.all<FoundJob>(RUNNING, name, queue, min, max, lower, upper, ties?.id ?? LATEST, limit)
  }
  return [
    ...stored.flatMap((status) => priorities.flatMap((priority) => page(status, priority))),
    ...(running && !ready ? inFlight() : []),
  ]
    .toSorted(compare)
    .slice(0, limit)
    .map(([row]) => readJob(session, row))
}

/** Text that sorts after every instant and every id. */
const LATEST = "~"

const compare = ([, atA, a]: FoundJob, [, atB, b]: FoundJob): number =>
  atA !== atB ? (atA > atB ? -1 : 1) : a < b ? -1 : a > b ? 1 : 0
