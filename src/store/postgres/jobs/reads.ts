// Reads jobs.

import type { JobRow } from "../../contract/jobs.ts"
import { JOB_COLUMNS, type JobColumns, jobOf } from "../../shared/job-rows.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

const COLUMNS = `${JOB_COLUMNS}, ARRAY(
    SELECT d.id::text FROM job_edges e JOIN jobs d ON d.task_id = e.dependency WHERE e.dependent = j.task_id ORDER BY e.position
  ) AS dependencies`

type Columns = JobColumns & { dependencies: string[] }

const toJob = ({ dependencies, ...columns }: Columns): JobRow => jobOf(columns, dependencies)

const BY_ROW = statement(
  "jobs_by_row",
  `SELECT ${COLUMNS} FROM unnest(:ids::bigint[]) AS w (id) JOIN jobs j ON j.task_id = w.id JOIN tasks t ON t.id = j.task_id
   LEFT JOIN limits l ON l.id = t.parked`,
)

const BY_ID = statement(
  "job_by_id",
  `SELECT ${COLUMNS} FROM jobs j JOIN tasks t ON t.id = j.task_id LEFT JOIN limits l ON l.id = t.parked WHERE j.id = :id::uuid`,
)

/** Returns the jobs of these rows, in their order. Each must exist. */
export const readJobs = async (connection: SqlRunner, rows: readonly number[]): Promise<JobRow[]> => {
  if (rows.length === 0) return []
  const found = new Map((await connection.run<Columns>(BY_ROW, { ids: rows })).map((c) => [c.row, toJob(c)]))
  return rows.map((row) => found.get(row)!)
}

export const getJob = async (connection: SqlRunner, id: string): Promise<JobRow | null> => {
  const [found] = await connection.run<Columns>(BY_ID, { id })
  return found === undefined ? null : toJob(found)
}
