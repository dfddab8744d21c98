// Creates jobs, all of a call or none. core/rules/jobs/job-plan.ts rejects them or plans their keys and their first state.

import { keyOfJob, resolveKeys, planNewJobs, rejectNewJobs } from "../../../core/rules/jobs/job-plan.ts"
import { keyColumn } from "../../shared/job-rows.ts"
import type { JobRejection, JobRow, NewJob, OnKeyConflict } from "../../contract/jobs.ts"
import { noteCall } from "../functions/functions.ts"
import { findJobs, insertEdges, statusesOf } from "./edges.ts"
import { emitNewJob } from "./job-status.ts"
import { insertJobs } from "./insert.ts"
import { readJob } from "./reads.ts"
import { replaceJob } from "./replace.ts"
import type { StoreContext, Tx } from "../tx.ts"

export const createJobs = (tx: Tx, given: readonly NewJob[], onConflict: OnKeyConflict): JobRow[] | JobRejection => {
  const plan = resolveKeys(given, findKeys(tx, given), onConflict)
  if ("rejected" in plan) return plan
  const jobs = plan.fresh
  const found = plan.results.flatMap(({ id, created }) => (created ? [] : id))
  const existing = findJobs(tx, [...found, ...jobs.flatMap(({ id, dependencies }) => [id, ...dependencies])])
  const rejection = rejectNewJobs(jobs, existing)
  if (rejection !== null) return rejection
  const created = insertJobs(tx, planNewJobs(jobs, statusesOf(existing)))
  const rowOf = (id: string): number => created.get(id)?.row ?? existing.get(id)!.row
  for (const job of jobs) {
    if (job.dependencies.length > 0) insertEdges(tx, rowOf(job.id), job.dependencies.map(rowOf))
    if (job.callerRow !== undefined) insertEdges(tx, job.callerRow, [rowOf(job.id)])
    if (job.callerRow !== undefined && job.callerStep !== undefined) noteCall(tx, job.callerRow, job.callerStep)
    const { status, availableAt } = created.get(job.id)!
    emitNewJob(tx, job, status, { availableAt })
    // The timers of other processes have to know them.
    if (availableAt !== null || job.expiresMs !== null) tx.wake.noteWorkLeft()
  }
  for (const { id, by } of plan.replaced) replaceJob(tx, rowOf(id), by)
  if (plan.replaced.length > 0) tx.wake.noteWorkLeft()
  tx.wake.noteRowsCreated()
  return plan.results.map(({ id, created: isNew }) =>
    isNew ? created.get(id)! : { ...readJob(tx, rowOf(id)), created: false },
  )
}

const FIND_KEY = "SELECT id FROM jobs WHERE name = ? AND key = ?"

/** Returns the id of the job that has this key, if any. */
export const findKey = ({ db }: StoreContext, { name, key }: Pick<NewJob, "name" | "key">): string | undefined =>
  key === null ? undefined : db.get<[string]>(FIND_KEY, name, keyColumn({ key }))?.[0]

const findKeys = (context: StoreContext, jobs: readonly NewJob[]): Map<string, string> => {
  const found = new Map<string, string>()
  for (const job of jobs) {
    const id = findKey(context, job)
    if (id !== undefined) found.set(keyOfJob(job)!, id)
  }
  return found
}
