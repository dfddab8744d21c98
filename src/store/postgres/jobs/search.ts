// Search over jobs: newest first, then by id. For each priority that fits, a page by the index of the other filters; of those
// pages the newest are taken. So a page costs the same whatever the number of jobs, and whatever fits.

import { JOB_LIMITS } from "../../../core/rules/jobs.ts"
import type { JobFilter, JobRow, JobStore } from "../../contract/jobs.ts"
import { anyParam } from "../connection/array-params.ts"
import { readJobs } from "./reads.ts"
import { type SqlRunner, type Statement, statement } from "../connection/connection.ts"

type Query = Parameters<JobStore["searchJobs"]>[0]

/** $1 priorities, $2 from, $3 up to, $4 … $5 the last one seen, $6 how many, $7 … the queue and the status. */
const PAGE = (where: string): string => {
  const jobs = `SELECT j.task_id, j.created_at, j.id FROM jobs j WHERE ${where} j.priority = p.priority`
  const page = `ORDER BY j.created_at DESC, j.id LIMIT $6::int`
  return `
    SELECT x.task_id FROM unnest($1::smallint[]) AS p (priority) CROSS JOIN LATERAL (
      (${jobs} AND j.created_at = $4::timestamptz AND j.created_at >= $2::timestamptz AND j.id > $5::uuid ${page})
      UNION ALL
      (${jobs} AND j.created_at < $3::timestamptz AND j.created_at >= $2::timestamptz ${page})
    ) x ORDER BY x.created_at DESC, x.id LIMIT $6::int`
}

const ANY = statement("jobs_search", PAGE(""))
const OF_QUEUE = statement("jobs_search_queue", PAGE("j.queue = $7 AND"))
const BY_STATUS = statement("jobs_search_status", PAGE("j.status = $7 AND"))
const OF_QUEUE_BY_STATUS = statement("jobs_search_queue_status", PAGE("j.queue = $7 AND j.status = $8 AND"))

const statementOf = ({ queue, status }: JobFilter): { page: Statement; values: string[] } => {
  if (queue === undefined && status === undefined) return { page: ANY, values: [] }
  if (status === undefined) return { page: OF_QUEUE, values: [queue!] }
  if (queue === undefined) return { page: BY_STATUS, values: [status] }
  return { page: OF_QUEUE_BY_STATUS, values: [queue, status] }
}

export const searchJobs = async (session: SqlRunner, { filter, limit, after }: Query): Promise<JobRow[]> => {
  const { page, values } = statementOf(filter)
  const cut = filter.createdBefore !== undefined && (after === undefined || filter.createdBefore <= after.createdAt)
  const upper = cut ? filter.createdBefore! : (after?.createdAt ?? "infinity")
  const ties = cut || after === undefined ? null : after
  const rows = await session.run<{ task_id: number }>(page, [
    anyParam(prioritiesOf(filter)),
    filter.createdAfter ?? "-infinity",
    upper,
    ties?.createdAt ?? null,
    ties?.id ?? null,
    limit,
    ...values,
  ])
  return readJobs(
    session,
    rows.map(({ task_id }) => task_id),
  )
}

const prioritiesOf = ({ priorityMin, priorityMax }: JobFilter): number[] => {
  const { min, max } = JOB_LIMITS.priority
  const from = Math.max(min, priorityMin ?? min)
  const to = Math.min(max, priorityMax ?? max)
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i)
}
