// Searches jobs, newest first, then by id. It reads one page per matching status and priority by the index of the other filters and
// merges them, so that the cost of a page does not depend on the number of jobs. RUNNING jobs are found among the rows in flight.

import type { JobRow, JobStore } from "../../contract/jobs.ts"
import { JOB_RUN_SEQ, planSearch, searchedStatuses } from "../../shared/job-rows.ts"
import { IN_FLIGHT_ROWS } from "../claim/ready-queue.ts"
import { readJobs } from "./reads.ts"
import { type Params, type SqlRunner, statement } from "../connection/statement.ts"

type Query = Parameters<JobStore["searchJobs"]>[0]

/** Jobs that are READY in the table and not in flight, unless RUNNING jobs are searched too. */
const NOT_RUNNING = `(j.status <> 'READY' OR :running::boolean
        OR NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = j.task_id AND t.holder IS NOT NULL))`

/** Reads a page of jobs per status and priority: first those created at the same time as the cursor, then older ones. */
const PAGE = (where: string): string => {
  const jobs = `SELECT j.task_id, j.created_at, j.id FROM jobs j
        WHERE ${where} j.status = s.status AND ${NOT_RUNNING} AND j.priority = p.priority`
  const page = `ORDER BY j.created_at DESC, j.id LIMIT :limit::int`
  return `
    SELECT x.task_id, x.created_at, x.id
    FROM unnest(:statuses::text[]) AS s (status) CROSS JOIN unnest(:priorities::smallint[]) AS p (priority) CROSS JOIN LATERAL (
      (${jobs} AND j.created_at = :cursorAt::timestamptz AND j.created_at >= :from::timestamptz AND j.id > :cursorId::uuid ${page})
      UNION ALL
      (${jobs} AND j.created_at < :before::timestamptz AND j.created_at >= :from::timestamptz ${page})
    ) x ORDER BY x.created_at DESC, x.id LIMIT :limit::int`
}

const ANY = statement("jobs_search", PAGE(""))
const OF_QUEUE = statement("jobs_search_queue", PAGE("j.queue = :queue AND"))
/** Checks the queue of each job that the index finds: jobs of one name are mostly in one queue. */
const OF_NAME = statement("jobs_search_name", PAGE("j.name = :name AND (:queue::text IS NULL OR j.queue = :queue) AND"))

const RUNNING = statement(
  "jobs_search_running",
  `SELECT j.task_id, j.created_at, j.id FROM ${IN_FLIGHT_ROWS(`WHERE run_seq = ${JOB_RUN_SEQ}`)} JOIN jobs j ON j.task_id = t.id
   WHERE t.status <> 'pending' AND (:name::text IS NULL OR j.name = :name) AND (:queue::text IS NULL OR j.queue = :queue)
     AND j.priority = ANY (:priorities::smallint[]) AND j.created_at >= :from::timestamptz
     AND (j.created_at < :before::timestamptz OR j.created_at = :cursorAt::timestamptz AND j.id > :cursorId::uuid)
   ORDER BY j.created_at DESC, j.id LIMIT :limit::int`,
)

interface FoundJob {
  task_id: number
  created_at: string
  id: string
}

export const searchJobs = async (connection: SqlRunner, query: Query): Promise<JobRow[]> => {
  const { filter, limit } = query
  const { name = null, queue = null } = filter
  const { stored, running, ready } = searchedStatuses(filter)
  const { priorities, createdBefore, ties } = planSearch(query)
  const params: Params = {
    name,
    queue,
    statuses: stored,
    running,
    priorities,
    from: filter.createdAfter ?? "-infinity",
    before: createdBefore ?? "infinity",
    cursorAt: ties?.createdAt ?? null,
    cursorId: ties?.id ?? null,
    limit,
  }
  const page = name !== null ? OF_NAME : queue !== null ? OF_QUEUE : ANY
  const found = await connection.run<FoundJob>(page, params)
  if (running && !ready) found.push(...(await connection.run<FoundJob>(RUNNING, params)))
  return readJobs(
    connection,
    found
      .toSorted(compare)
      .slice(0, limit)
      .map(({ task_id }) => task_id),
  )
}

const compare = (a: FoundJob, b: FoundJob): number =>
  a.created_at !== b.created_at ? (a.created_at > b.created_at ? -1 : 1) : a.id < b.id ? -1 : 1
