// Searches jobs, newest first, then by id. It reads one page per list and priority and merges them, so that the cost of a page does not
// depend on the number of jobs. A list is a queue, or the jobs of one name, with a status or without. RUNNING jobs are found among the
// rows in flight, READY ones among those that wait.

import type { JobFilter, JobRow, JobStore } from "../../contract/jobs.ts"
import { MAX_BACKLOG_READ } from "../../shared/bounds.ts"
import { JOB_RUN_SEQ, planSearch, searchedStatuses } from "../../shared/job-rows.ts"
import { queuesOfJobs } from "../admin/queues.ts"
import type { Value } from "../connection/database.ts"
import { readJob } from "./reads.ts"
import type { StoreContext } from "../tx.ts"
import { BACKLOG_JOBS } from "./backlog.ts"

type Query = Parameters<JobStore["searchJobs"]>[0]
type FoundJob = [row: number, createdAt: string, id: string]

/** Jobs of a set of rows `t`. */
const OF_ROWS = `(?1 IS NULL OR j.name = ?1) AND (?2 IS NULL OR j.queue = ?2) AND j.priority >= ?3 AND j.priority <= ?4
  AND j.created_at >= ?5 AND (j.created_at < ?6 OR j.created_at = ?6 AND j.id > ?7)
ORDER BY j.created_at DESC, j.id LIMIT ?8 + 0`

const RUNNING = `
SELECT j.task_id, j.created_at, j.id FROM tasks t INDEXED BY tasks_in_flight CROSS JOIN jobs j ON j.task_id = t.id
WHERE t.holder IS NOT NULL AND t.run_seq = ${JOB_RUN_SEQ} AND t.status <> 'pending' AND ${OF_ROWS}`

const BACKLOG = BACKLOG_JOBS(String(MAX_BACKLOG_READ + 1))
const COUNT_BACKLOG = `SELECT count(*) FROM (${BACKLOG})`

const READY_OF_BACKLOG = `
SELECT j.task_id, j.created_at, j.id FROM (${BACKLOG}) t CROSS JOIN jobs j ON j.task_id = t.id
WHERE j.status = 'READY' AND ${OF_ROWS}`

/** Jobs that are not in flight. */
const NOT_RUNNING = "AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = jobs.task_id AND t.holder IS NOT NULL)"

/** The pages of a search; each list has one per priority. */
interface Pages {
  index: "jobs_of_name" | "jobs_of_queue" | "jobs_of_name_by_status" | "jobs_of_queue_by_status"
  /** Conditions on its columns before the priority. */
  where: string
  values: Value[]
  /** Further conditions, which the index does not help with. */
  filter: string
}

/** A search by name checks the queue of each job that it finds by the index: jobs of one name are mostly in one queue. */
const listsOf = (context: StoreContext, { name, queue }: JobFilter): Pages[] => {
  if (name === undefined) {
    const queues = queue === undefined ? queuesOfJobs(context) : [queue]
    return queues.map((each) => ({ index: "jobs_of_queue", where: "queue = ? AND", values: [each], filter: "" }))
  }
  const where = `name = ? AND ${queue === undefined ? "" : "queue = ? AND"}`
  return [{ index: "jobs_of_name", where, values: queue === undefined ? [name] : [name, queue], filter: "" }]
}

export const searchJobs = (context: StoreContext, query: Query): JobRow[] => {
  const { filter, limit } = query
  const { priorities, createdBefore, ties } = planSearch(query)
  const upper = createdBefore ?? LATEST
  const lower = filter.createdAfter ?? ""
  const page = ({ index, where, values, filter: only }: Pages, priority: number): FoundJob[] => {
    const jobs = `SELECT task_id, created_at, id FROM jobs INDEXED BY ${index} WHERE ${where} priority = ?`
    const same = `${jobs} AND created_at = ? AND created_at >= ? AND id > ? ${only} ORDER BY id LIMIT ? + 0`
    const before = `${jobs} AND created_at < ? AND created_at >= ? ${only} ORDER BY created_at DESC, id LIMIT ? + 0`
    const those: Value[] = [...values, priority]
    const first = ties === null ? [] : context.db.all<FoundJob>(same, ...those, upper, lower, ties.id, limit)
    return [...first, ...context.db.all<FoundJob>(before, ...those, upper, lower, limit - first.length)]
  }
  const ofRows = (statement: string): FoundJob[] => {
    const { name = null, queue = null } = filter
    const [min, max] = [priorities[0] ?? 1, priorities.at(-1) ?? 0]
    return context.db.all<FoundJob>(statement, name, queue, min, max, lower, upper, ties?.id ?? LATEST, limit)
  }
  const lists = listsOf(context, filter)
  const read = (pages: readonly Pages[]): FoundJob[] =>
    pages.flatMap((each) => priorities.flatMap((priority) => page(each, priority)))
  const statuses = searchedStatuses(filter)
  const found: FoundJob[] = []
  if (statuses === "any") found.push(...read(lists))
  else {
    const { listed, ready, running, completed } = statuses
    for (const status of completed ? [...listed, "COMPLETED"] : listed) found.push(...read(lists.map(withStatus(status))))
    if (running) found.push(...ofRows(RUNNING))
    if (ready) found.push(...(hasSmallBacklog(context) ? ofRows(READY_OF_BACKLOG) : read(lists.map(onlyReady))))
  }
  return found
    .toSorted(compare)
    .slice(0, limit)
    .map(([row]) => readJob(context, row))
}

const withStatus =
  (status: string) =>
  ({ index, where, values }: Pages): Pages => ({
    index: index === "jobs_of_name" ? "jobs_of_name_by_status" : "jobs_of_queue_by_status",
    where: `${where} status = ? AND status <> 'READY' AND`,
    values: [...values, status],
    filter: "",
  })

const onlyReady = (pages: Pages): Pages => ({ ...pages, filter: `AND status = 'READY' ${NOT_RUNNING}` })

/** Whether reading the whole backlog costs little. In a large one, a READY job is near in the index. */
const hasSmallBacklog = ({ db }: StoreContext): boolean => db.get<[number]>(COUNT_BACKLOG)![0] <= MAX_BACKLOG_READ

/** Text that sorts after every instant and every id. */
const LATEST = "~"

const compare = ([, atA, a]: FoundJob, [, atB, b]: FoundJob): number =>
  atA !== atB ? (atA > atB ? -1 : 1) : a < b ? -1 : a > b ? 1 : 0
