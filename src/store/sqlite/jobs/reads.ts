// Reads jobs.

import type { JobRow } from "../../contract/jobs.ts"
import { JOB_COLUMNS, type JobColumns, jobOf } from "../../shared/job-rows.ts"
import type { StoreContext } from "../tx.ts"

const COLUMNS = `SELECT ${JOB_COLUMNS} FROM jobs j JOIN tasks t ON t.id = j.task_id LEFT JOIN limits l ON l.id = t.parked`
const BY_ROW = `${COLUMNS} WHERE j.task_id = ?`
const BY_ID = `${COLUMNS} WHERE j.id = ?`

const DEPENDENCIES = `
SELECT j.id FROM job_edges e JOIN jobs j ON j.task_id = e.dependency WHERE e.dependent = ? ORDER BY e.position`

const dependenciesOf = (context: StoreContext, row: number): string[] =>
  context.db.all<[string]>(DEPENDENCIES, row).map(([id]) => id)

export const readJob = (context: StoreContext, row: number): JobRow =>
  jobOf(context.db.find<JobColumns>(BY_ROW, row)!, dependenciesOf(context, row))

export const getJob = (context: StoreContext, id: string): JobRow | null => {
  const found = context.db.find<JobColumns>(BY_ID, id)
  return found === undefined ? null : jobOf(found, dependenciesOf(context, found.row))
}
