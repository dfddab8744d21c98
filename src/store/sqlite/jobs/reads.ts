// Reads jobs.

import type { JobStatus } from "../../../core/rules/jobs.ts"
import { outputOf } from "../../shared/codec.ts"
import { claimedJob } from "../../shared/job-rows.ts"
import type { JobRow } from "../../contract/jobs.ts"
import type { Session } from "../tx.ts"

const COLUMNS = `
SELECT j.task_id, j.id, j.name, j.queue, j.payload, j.priority, j.retry_policy, j.task, j.concurrency_key, j.status, j.created_at,
  j.updated_at, t.attempt, t.error, t.exit_code, t.output, t.output_key, t.output_bytes, t.worker, t.attempt_id, t.available_at,
  t.started_at, t.finished_at
FROM jobs j JOIN tasks t ON t.id = j.task_id`

const BY_ROW = `${COLUMNS} WHERE j.task_id = ?`
const BY_ID = `${COLUMNS} WHERE j.id = ?`

type Columns = [
  number,
  string,
  string,
  string,
  string,
  number,
  string,
  string | null,
  string | null,
  JobStatus,
  string,
  string,
  number,
  string | null,
  number | null,
  string | null,
  string | null,
  number | null,
  string | null,
  string | null,
  string | null,
  string | null,
  string | null,
]

const DEPENDENCIES = `
SELECT j.id FROM job_edges e JOIN jobs j ON j.task_id = e.dependency WHERE e.dependent = ? ORDER BY e.position`

export const dependenciesOf = (session: Session, row: number): string[] =>
  session.db.all<[string]>(DEPENDENCIES, row).map(([id]) => id)

export const readJob = (session: Session, row: number): JobRow => jobOf(session, session.db.get<Columns>(BY_ROW, row)!)

export const getJob = (session: Session, id: string): JobRow | null => {
  const found = session.db.get<Columns>(BY_ID, id)
  return found === undefined ? null : jobOf(session, found)
}

const jobOf = (session: Session, c: Columns): JobRow => ({
  ...claimedJob({ id: c[1], name: c[2], queue: c[3], payload: c[4], retry_policy: c[6], task: c[7] }),
  row: c[0],
  priority: c[5],
  concurrencyKey: c[8],
  status: c[9],
  createdAt: c[10],
  updatedAt: c[11],
  attemptCount: c[12],
  error: c[13],
  exitCode: c[14],
  output: outputOf(c[15], c[16], c[17]),
  worker: c[18],
  attemptId: c[19],
  availableAt: c[20],
  startedAt: c[21],
  finishedAt: c[22],
  dependencies: dependenciesOf(session, c[0]),
})
