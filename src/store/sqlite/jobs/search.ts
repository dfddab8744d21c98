// Searches jobs, newest first, then by id. It reads one page per matching priority by the index of the other filters and merges
// them, so that the cost of a page does not depend on the number of jobs.

import type { JobFilter, JobRow, JobStore } from "../../contract/jobs.ts"
import { planSearch } from "../../shared/job-rows.ts"
import type { Value } from "../connection/database.ts"
import { readJob } from "./reads.ts"
import type { Session } from "../tx.ts"

type Query = Parameters<JobStore["searchJobs"]>[0]
type FoundJob = [row: number, createdAt: string, id: string]

/** Returns the index to use, with the condition on its columns before the priority. */
const indexOf = ({ queue, status }: JobFilter): { index: string; where: string; values: string[] } => {
  if (queue === undefined && status === undefined) return { index: "jobs_created", where: "", values: [] }
  if (status === undefined) return { index: "jobs_of_queue", where: "queue = ? AND", values: [queue!] }
  if (queue === undefined) return { index: "jobs_by_status", where: "status = ? AND", values: [status] }
  return { index: "jobs_of_queue_by_status", where: "queue = ? AND status = ? AND", values: [queue, status] }
}

export const searchJobs = (session: Session, query: Query): JobRow[] => {
  const { filter, limit } = query
  const { index, where, values } = indexOf(filter)
  const jobs = `SELECT task_id, created_at, id FROM jobs INDEXED BY ${index} WHERE ${where} priority = ?`
  const same = `${jobs} AND created_at = ? AND created_at >= ? AND id > ? ORDER BY id LIMIT ? + 0`
  const before = `${jobs} AND created_at < ? AND created_at >= ? ORDER BY created_at DESC, id LIMIT ? + 0`

  const { priorities, createdBefore, ties } = planSearch(query)
  const upper = createdBefore ?? LATEST
  const lower = filter.createdAfter ?? ""
  const page = (priority: number): FoundJob[] => {
    const those: Value[] = [...values, priority]
    const first = ties === null ? [] : session.db.all<FoundJob>(same, ...those, upper, lower, ties.id, limit)
    return [...first, ...session.db.all<FoundJob>(before, ...those, upper, lower, limit - first.length)]
  }
  return priorities
    .flatMap(page)
    .toSorted(compare)
    .slice(0, limit)
    .map(([row]) => readJob(session, row))
}

/** Text that sorts after every instant. */
const LATEST = "~"

const compare = ([, atA, a]: FoundJob, [, atB, b]: FoundJob): number =>
  atA !== atB ? (atA > atB ? -1 : 1) : a < b ? -1 : a > b ? 1 : 0
