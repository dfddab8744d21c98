// Searches jobs, newest first, then by id. It reads one page per matching priority by the index of the other filters and merges
// them, so that the cost of a page does not depend on the number of jobs.

import type { JobFilter, JobRow, JobStore } from "../../contract/jobs.ts"
import { planSearch } from "../../shared/job-rows.ts"
import { readJobs } from "./reads.ts"
import { type SqlRunner, type Statement, statement } from "../connection/statement.ts"

type Query = Parameters<JobStore["searchJobs"]>[0]

/** Reads a page of jobs per priority: first those created at the same time as the cursor, then older ones. */
const PAGE = (where: string): string => {
  const jobs = `SELECT j.task_id, j.created_at, j.id FROM jobs j WHERE ${where} j.priority = p.priority`
  const page = `ORDER BY j.created_at DESC, j.id LIMIT :limit::int`
  return `
    SELECT x.task_id FROM unnest(:priorities::smallint[]) AS p (priority) CROSS JOIN LATERAL (
      (${jobs} AND j.created_at = :cursorAt::timestamptz AND j.created_at >= :from::timestamptz AND j.id > :cursorId::uuid ${page})
      UNION ALL
      (${jobs} AND j.created_at < :before::timestamptz AND j.created_at >= :from::timestamptz ${page})
    ) x ORDER BY x.created_at DESC, x.id LIMIT :limit::int`
}

const ANY = statement("jobs_search", PAGE(""))
const OF_QUEUE = statement("jobs_search_queue", PAGE("j.queue = :queue AND"))
const BY_STATUS = statement("jobs_search_status", PAGE("j.status = :status AND"))
const OF_QUEUE_BY_STATUS = statement("jobs_search_queue_status", PAGE("j.queue = :queue AND j.status = :status AND"))

const statementOf = ({ queue, status }: JobFilter): { page: Statement; params: { [name: string]: string } } => {
  if (queue === undefined && status === undefined) return { page: ANY, params: {} }
  if (status === undefined) return { page: OF_QUEUE, params: { queue: queue! } }
  if (queue === undefined) return { page: BY_STATUS, params: { status } }
  return { page: OF_QUEUE_BY_STATUS, params: { queue, status } }
}

export const searchJobs = async (connection: SqlRunner, query: Query): Promise<JobRow[]> => {
  const { filter, limit } = query
  const { page, params } = statementOf(filter)
  const { priorities, createdBefore, ties } = planSearch(query)
  const rows = await connection.run<{ task_id: number }>(page, {
    priorities,
    from: filter.createdAfter ?? "-infinity",
    before: createdBefore ?? "infinity",
    cursorAt: ties?.createdAt ?? null,
    cursorId: ties?.id ?? null,
    limit,
    ...params,
  })
  return readJobs(
    connection,
    rows.map(({ task_id }) => task_id),
  )
}
