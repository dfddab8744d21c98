// Creates jobs, all of a call or none. core/rules/jobs/job-plan.ts rejects them or plans their first state.

import {
  type JobPlan,
  type KeyPlan,
  keyOfJob,
  resolveKeys,
  planNewJobs,
  rejectNewJobs,
} from "../../../core/rules/jobs/job-plan.ts"
import { createdJob, jobGroupNumber, jobLane, jobLimits, keyColumn, settingsColumn, sharedJson } from "../../shared/job-rows.ts"
import type { Tx } from "../tx.ts"
import type { JobRejection, JobRow, NewJob, OnKeyConflict } from "../../contract/jobs.ts"
import type { StoreEvent } from "../../contract/store.ts"
import { arrayParam } from "../connection/array-params.ts"
import { noteCalls } from "../functions/functions.ts"
import { findJobs, type FoundJobs, insertEdges, statusesOf } from "./edges.ts"
import { replaceJob } from "./replace.ts"
import { jobEvent } from "../../shared/events.ts"
import { readJobs } from "./reads.ts"
import { ensureLimits } from "../claim/limits.ts"
import { lockTasksForWrite } from "../claim/queue-limits.ts"
import { pipelined, statement } from "../connection/statement.ts"

export interface CreateOptions {
  onConflict: OnKeyConflict
  /** Whether to look for jobs with the new ids: an insert found one (`onDuplicate`). */
  checkIds: boolean
}

export const createJobs = async (
  tx: Tx,
  given: readonly NewJob[],
  { onConflict, checkIds }: CreateOptions,
): Promise<JobRow[] | JobRejection> => {
  if (given.length === 0) return []
  const found = await lockExisting(tx, given, { onConflict, checkIds })
  if ("rejected" in found) return found
  const { plan, existing } = found
  const jobs = plan.fresh
  const tableLocked = pipelined(lockTasksForWrite(tx))
  const rejection = rejectNewJobs(jobs, existing)
  if (rejection !== null) return rejection
  const limits = await ensureLimits(tx, jobs.flatMap(jobLimits))
  const inserting = pipelined(insertJobs(tx, planNewJobs(jobs, statusesOf(existing)), limits))
  await tableLocked
  const created = await inserting
  const rowOf = (id: string): number => created.get(id)?.row ?? existing.get(id)!.row
  await insertEdges(
    tx,
    jobs.flatMap(({ id, dependencies, callerRow }) => [
      { row: rowOf(id), dependencies: dependencies.map(rowOf) },
      ...(callerRow === undefined ? [] : [{ row: callerRow, dependencies: [rowOf(id)] }]),
    ]),
  )
  await noteCalls(
    tx,
    jobs.flatMap(({ callerRow, callerStep }) =>
      callerRow === undefined || callerStep === undefined ? [] : { ...callerStep, row: callerRow },
    ),
  )
  for (const { id, by } of plan.replaced) await replaceJob(tx, rowOf(id), by)
  tx.events.push(...jobs.map(({ id }) => createdEvent(created.get(id)!)))
  const repeated = plan.results.flatMap((result) => (result.created ? [] : rowOf(result.id)))
  const read = new Map((await readJobs(tx, [...new Set(repeated)])).map((job) => [job.id, { ...job, created: false }]))
  return plan.results.map((result) => (result.created ? created : read).get(result.id)!)
}

/**
 * Locks the jobs that have the keys of these, and their dependencies. Another transaction may delete a job between the look for its key and
 * the lock: then it looks again.
 */
const lockExisting = async (
  tx: Tx,
  given: readonly NewJob[],
  { onConflict, checkIds }: CreateOptions,
): Promise<{ plan: KeyPlan<NewJob>; existing: FoundJobs } | JobRejection> => {
  for (;;) {
    const plan = resolveKeys(given, await findKeys(tx, given), onConflict)
    if ("rejected" in plan) return plan
    const repeated = plan.results.flatMap(({ id, created }) => (created ? [] : id))
    const existing = await findJobs(tx, [
      ...repeated,
      ...plan.fresh.flatMap(({ id, dependencies }) => (checkIds ? [id, ...dependencies] : dependencies)),
    ])
    const isFresh = (id: string): boolean => plan.fresh.some((job) => job.id === id)
    if (repeated.every((id) => existing.has(id) || isFresh(id))) return { plan, existing }
  }
}

const createdEvent = (job: JobRow): StoreEvent => jobEvent(job, job.status, { at: job.createdAt, availableAt: job.availableAt })

/** Creates jobs without keys, dependencies and limits, which therefore need no checks. Sends its statements before it returns. */
export const createIndependentJobs = async (tx: Tx, jobs: readonly NewJob[]): Promise<JobRow[]> => {
  const tableLocked = pipelined(lockTasksForWrite(tx))
  const inserting = pipelined(insertJobs(tx, planNewJobs(jobs, new Map()), new Map()))
  await tableLocked
  const created = [...(await inserting).values()]
  tx.events.push(...created.map(createdEvent))
  return created
}

const FIND_KEYS = statement(
  "jobs_find_keys",
  `SELECT j.name, j.key, j.id FROM unnest(:names::text[], :keys::text[]) AS k (name, key) JOIN jobs j ON j.name = k.name AND j.key = k.key`,
)

/** Returns the ids of the jobs that have the keys of these, by `keyOfJob`. */
export const findKeys = async (tx: Tx, jobs: readonly Pick<NewJob, "name" | "key">[]): Promise<Map<string, string>> => {
  const keyed = jobs.filter(({ key }) => key !== null)
  if (keyed.length === 0) return new Map()
  const found = await tx.run<{ name: string; key: string; id: string }>(FIND_KEYS, {
    names: keyed.map(({ name }) => name),
    keys: keyed.map(keyColumn),
  })
  return new Map(found.map(({ name, key, id }) => [keyOfJob({ name, key })!, id]))
}

/** Returns the values of a column that the jobs of a call mostly share; one stands for all of them (schema/016-job-search.ts). */
const shared = <T>(values: readonly T[]): readonly T[] =>
  values.every((value) => value === values[0]) ? values.slice(0, 1) : values

/** `insert_jobs` (schema/016-job-search.ts) also inserts the jobs of users' transactions. */
const INSERT = statement(
  "jobs_insert",
  `SELECT new_row AS row, new_id AS id, new_at AS at, new_available_at AS "availableAt" FROM insert_jobs(
     :ids::uuid[], :names::text[], :queues::text[], :lanes::text[], :priorities::smallint[], :statuses::text[], :rowStatuses::text[],
     :pendingCounts::int[], :limits::text[], :errors::text[], :concurrencyKeys::text[], :retryPolicies::text[], :tasks::text[],
     :payloads::text[], :groups::bigint[], :runAts::timestamptz[], :delays::bigint[], :keys::text[], :settings::text[],
     :expiries::bigint[], :creators::text[], :now::timestamptz)`,
)

/** Returns the inserted jobs by id. Sends its statement before it returns. `limits`: numbers of their limits, by key. */
const insertJobs = async (
  tx: Tx,
  planned: readonly { job: NewJob; plan: JobPlan }[],
  limits: ReadonlyMap<string, number>,
): Promise<Map<string, JobRow>> => {
  if (planned.length === 0) return new Map()
  const jobs = planned.map(({ job }) => job)
  const plans = planned.map(({ plan }) => plan)
  const limitsOf = (job: NewJob): string | null => arrayParam(jobLimits(job).map(({ key }) => limits.get(key)!))
  const inserted = await tx.run<{ row: number; id: string; at: string; availableAt: string | null }>(INSERT, {
    ids: jobs.map(({ id }) => id),
    names: shared(jobs.map(({ name }) => name)),
    queues: shared(jobs.map(({ queue }) => queue)),
    lanes: shared(jobs.map(jobLane)),
    priorities: shared(jobs.map(({ priority }) => priority)),
    statuses: shared(plans.map(({ status }) => status)),
    rowStatuses: shared(plans.map(({ rowStatus }) => rowStatus)),
    pendingCounts: shared(plans.map(({ pending }) => pending)),
    limits: jobs.map(limitsOf),
    errors: plans.map(({ error }) => error),
    concurrencyKeys: jobs.map(({ concurrencyKey }) => concurrencyKey),
    retryPolicies: shared(jobs.map(({ retryPolicy }) => sharedJson(retryPolicy))),
    tasks: shared(jobs.map(({ task }) => (task === null ? null : sharedJson(task)))),
    payloads: shared(jobs.map(({ payload }) => JSON.stringify(payload))),
    groups: shared(jobs.map(jobGroupNumber)),
    runAts: jobs.map(({ runAt }) => runAt),
    delays: jobs.map(({ delayMs }) => delayMs),
    keys: jobs.map(keyColumn),
    settings: jobs.map(settingsColumn),
    expiries: jobs.map(({ expiresMs }) => expiresMs),
    creators: jobs.map(({ createdBy }) => createdBy ?? null),
  })
  const rows = new Map(inserted.map((row) => [row.id, row]))
  return new Map(planned.map(({ job, plan }) => [job.id, createdJob(job, plan, rows.get(job.id)!)]))
}
