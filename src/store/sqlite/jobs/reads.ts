// Reads jobs.

import type { JobRow } from "../../contract/jobs.ts"
import { JOB_COLUMNS, type JobColumns, jobOf } from "../../shared/job-rows.ts"
import type { Session } from "../tx.ts"

const COLUMNS = `SELECT ${JOB_COLUMNS} FROM jobs j JOIN tasks t ON t.id = j.task_id LEFT JOIN limits l ON l.id = t.parked`
const BY_ROW = `${COLUMNS} WHERE j.task_id = ?`
const BY_ID = `${COLUMNS} WHERE j.id = ?`

const DEPENDENCIES = `
SELECT j.id FROM job_edges e JOIN jobs j ON j.task_id = e.dependency WHERE e.dependent = ? ORDER BY e.position`

const dependenciesOf = (session: Session, row: number): string[] =>
  session.db.all<[string]>(DEPENDENCIES, row).map(([id]) => id)

export const readJob = (session: Session, row: number): JobRow =>
  jobOf(session.db.find<JobColumns>(BY_ROW, row)!, dependenciesOf(session, row))

export const getJob = (session: Session, id: string): JobRow | null => {
  const found = session.db.find<JobColumns>(BY_ID, id)
  return found === undefined ? null : jobOf(found, dependenciesOf(session, found.row))
}
