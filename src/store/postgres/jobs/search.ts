// Searches jobs, newest first, then by id. It reads one page per list and priority and merges them, so that the cost of a page does not
// depend on the number of jobs. A list is a queue, or the jobs of one name. The indexes do not contain whether a job is READY, RUNNING or
// COMPLETED, which changes too often: RUNNING jobs are found among the rows in flight, READY ones among those that wait, COMPLETED
// ones in the seconds that the table completed_seconds names.

import type { JobRow, JobStore } from "../../contract/jobs.ts"
import { MAX_BACKLOG_READ } from "../../shared/bounds.ts"
import { JOB_RUN_SEQ, planSearch, searchedStatuses } from "../../shared/job-rows.ts"
import { IN_FLIGHT_ROWS } from "../claim/ready-queue.ts"
import { queuesOfJobs } from "../admin/queues.ts"
import { readJobs } from "./reads.ts"
import { type Params, type SqlRunner, statement } from "../connection/statement.ts"
import { BACKLOG_JOBS } from "./backlog.ts"

type Query = Parameters<JobStore["searchJobs"]>[0]
type List = "name" | "queue"

const LISTS = `unnest(:lists::text[]) AS l (list) CROSS JOIN unnest(:priorities::smallint[]) AS p (priority)`
const NEWEST_FIRST = "ORDER BY j.created_at DESC, j.id LIMIT :limit::int"
const AFTER_CURSOR = `(j.created_at < :before::timestamptz OR j.created_at = :cursorAt::timestamptz AND j.id > :cursorId::uuid)
        AND j.created_at >= :from::timestamptz`
/** A search by name checks the queue of each job: jobs of one name are mostly in one queue. */
const IN_QUEUE = "(:queue::text IS NULL OR j.queue = :queue)"

const pages = (source: string, page: string): string => `
    SELECT x.task_id, x.created_at, x.id FROM ${source} CROSS JOIN LATERAL (${page}) x
    ORDER BY x.created_at DESC, x.id LIMIT :limit::int`

const COLUMNS = "j.task_id, j.created_at, j.id"

/** Reads a page of jobs per list and priority: first those created at the same time as the cursor, then older ones. */
const byIndex = (list: List, { source = LISTS, where = "true" } = {}): string => {
  const jobs = `SELECT ${COLUMNS} FROM jobs j WHERE j.${list} = l.list AND j.priority = p.priority AND ${IN_QUEUE} AND ${where}`
  return pages(
    source,
    `(${jobs} AND j.created_at = :cursorAt::timestamptz AND j.created_at >= :from::timestamptz AND j.id > :cursorId::uuid ${NEWEST_FIRST})
      UNION ALL
      (${jobs} AND j.created_at < :before::timestamptz AND j.created_at >= :from::timestamptz ${NEWEST_FIRST})`,
  )
}

const NOT_IN_FLIGHT = "NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = j.task_id AND t.holder IS NOT NULL)"

/** Reads the seconds from the newest one on, until the page is full. */
const completed = (list: List): string =>
  pages(
    LISTS,
    `SELECT y.task_id, y.created_at, y.id FROM completed_seconds s CROSS JOIN LATERAL (
         SELECT ${COLUMNS} FROM jobs j
         WHERE j.${list} = l.list AND j.priority = p.priority AND ${IN_QUEUE} AND j.status = 'COMPLETED'
           AND j.created_at >= s.second AND j.created_at < s.second + interval '1 second' AND ${AFTER_CURSOR} ${NEWEST_FIRST}
       ) y
       WHERE s.list = '${list === "name" ? "n:" : "q:"}' || l.list AND s.priority = p.priority AND s.second <= :before::timestamptz
         AND s.second > :from::timestamptz - interval '1 second'
       ORDER BY s.second DESC, y.created_at DESC, y.id LIMIT :limit::int`,
  )

const statementsOf = (list: List) => ({
  any: statement(`jobs_search_${list}`, byIndex(list)),
  listed: statement(
    `jobs_search_${list}_status`,
    byIndex(list, {
      source: `${LISTS} CROSS JOIN unnest(:statuses::text[]) AS s (status)`,
      where: "j.listed_status = s.status",
    }),
  ),
  ready: statement(`jobs_search_${list}_ready`, byIndex(list, { where: `j.status = 'READY' AND ${NOT_IN_FLIGHT}` })),
  completed: statement(`jobs_search_${list}_completed`, completed(list)),
})

const OF_LIST = { name: statementsOf("name"), queue: statementsOf("queue") } as const

/** Jobs of a set of rows `x`. */
const OF_ROWS = `(:name::text IS NULL OR j.name = :name) AND ${IN_QUEUE} AND j.priority = ANY (:priorities::smallint[])
     AND ${AFTER_CURSOR} ${NEWEST_FIRST}`

const RUNNING = statement(
  "jobs_search_running",
  `SELECT ${COLUMNS} FROM ${IN_FLIGHT_ROWS(`WHERE run_seq = ${JOB_RUN_SEQ}`)} JOIN jobs j ON j.task_id = t.id
   WHERE t.status <> 'pending' AND ${OF_ROWS}`,
)

const BACKLOG = BACKLOG_JOBS(String(MAX_BACKLOG_READ + 1))
const COUNT_BACKLOG = statement("jobs_count_backlog", `SELECT count(*)::int AS n FROM (${BACKLOG}) x`)
const READY = statement(
  "jobs_search_backlog",
  `SELECT ${COLUMNS} FROM (${BACKLOG}) x JOIN jobs j ON j.task_id = x.id WHERE j.status = 'READY' AND ${OF_ROWS}`,
)

interface FoundJob {
  task_id: number
  created_at: string
  id: string
}

export const searchJobs = async (connection: SqlRunner, query: Query): Promise<JobRow[]> => {
  const { filter, limit } = query
  const { name = null, queue = null } = filter
  const { priorities, createdBefore, ties } = planSearch(query)
  const params: Params = {
    name,
    queue,
    lists: name !== null ? [name] : queue !== null ? [queue] : await queuesOfJobs(connection),
    priorities,
    from: filter.createdAfter ?? "-infinity",
    before: createdBefore ?? "infinity",
    cursorAt: ties?.createdAt ?? null,
    cursorId: ties?.id ?? null,
    limit,
  }
  const statements = OF_LIST[name === null ? "queue" : "name"]
  const search = (...args: Parameters<SqlRunner["run"]>): Promise<FoundJob[]> => connection.run<FoundJob>(...args)
  const found: FoundJob[] = []
  const statuses = searchedStatuses(filter)
  if (statuses === "any") found.push(...(await search(statements.any, params)))
  else {
    const { listed, ready, running, completed } = statuses
    if (listed.length > 0) found.push(...(await search(statements.listed, { ...params, statuses: listed })))
    if (ready) found.push(...(await search((await hasSmallBacklog(connection)) ? READY : statements.ready, params)))
    if (running) found.push(...(await search(RUNNING, params)))
    if (completed) found.push(...(await search(statements.completed, params)))
  }
  return readJobs(
    connection,
    found
      .toSorted(compare)
      .slice(0, limit)
      .map(({ task_id }) => task_id),
  )
}

/** Whether reading the whole backlog costs little. In a large one, a READY job is near in the index. */
const hasSmallBacklog = async (connection: SqlRunner): Promise<boolean> =>
  (await connection.run<{ n: number }>(COUNT_BACKLOG))[0]!.n <= MAX_BACKLOG_READ

const compare = (a: FoundJob, b: FoundJob): number =>
  a.created_at !== b.created_at ? (a.created_at > b.created_at ? -1 : 1) : a.id < b.id ? -1 : 1
