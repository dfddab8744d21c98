// Jobs that are created in the transaction of a turn, which claims them at once: one commit less until they start. A turn that begins in
// the tick of the call takes them (`Engine.createWithTurn` wakes the loop before the call); without one they get a transaction of their own.
//
// Only jobs that lock no existing row take part: in a turn, others would change the order of its locks. When the common transaction fails, the
// turn is repeated without them, and each call by itself, so that a bad job fails neither the turn nor another call.

import { rejectNewJobs } from "../../../core/rules/jobs/job-plan.ts"
import { hasPendingAuditEntry } from "../../contract/audit-scope.ts"
import { StoreUnavailable } from "../../contract/errors.ts"
import type { JobRejection, JobRow, NewJob } from "../../contract/jobs.ts"
import { jobLimits } from "../../shared/job-rows.ts"
import { createIndependentJobs } from "../jobs/create.ts"
import type { Tx } from "../tx.ts"

type Created = JobRow[] | JobRejection

/** A call that waits for the end of its tick. */
interface Call {
  jobs: readonly NewJob[]
  /** Creates the jobs in a transaction of their own. */
  separately(): Promise<Created>
  resolve(created: Created | Promise<Created>): void
  reject(reason: unknown): void
}

/** Most jobs that a turn creates: its other changes wait for them. */
const MAX_JOBS = 64

const locksNoRow = ({ key, dependencies, callerRow, ...job }: NewJob): boolean =>
  key === null && dependencies.length === 0 && callerRow === undefined && jobLimits(job).length === 0

export class JointCreations {
  #waiting: Call[] = []

  /** Creates jobs with the turn that begins in this tick, or else by `separately`. */
  create(jobs: readonly NewJob[], separately: () => Promise<Created>): Promise<Created> {
    if (jobs.length > MAX_JOBS || hasPendingAuditEntry() || !jobs.every(locksNoRow) || rejectNewJobs(jobs, new Map()) !== null)
      return separately()
    return new Promise((resolve, reject) => {
      const call: Call = { jobs, separately, resolve, reject }
      this.#waiting.push(call)
      setImmediate(() => {
        if (!this.#waiting.includes(call)) return
        this.#waiting = this.#waiting.filter((each) => each !== call)
        resolve(separately())
      })
    })
  }

  /** Takes the calls that wait, for a turn that creates their jobs. */
  take(): TakenCalls {
    let left = MAX_JOBS
    const taken = this.#waiting.filter(({ jobs }) => (left -= jobs.length) >= 0)
    this.#waiting = this.#waiting.filter((call) => !taken.includes(call))
    return new TakenCalls(taken)
  }
}

export class TakenCalls {
  readonly #calls: readonly Call[]

  constructor(calls: readonly Call[]) {
    this.#calls = calls
  }

  get size(): number {
    return this.#calls.length
  }

  /** Creates the jobs of all calls. Sends its statements before it returns. */
  createInTurn(tx: Tx): Promise<JobRow[]> {
    return createIndependentJobs(
      tx,
      this.#calls.flatMap(({ jobs }) => jobs),
    )
  }

  /** Returns the created jobs to the callers. */
  succeed(created: readonly JobRow[]): void {
    const rows = new Map(created.map((job) => [job.id, job]))
    for (const { jobs, resolve } of this.#calls) resolve(jobs.map(({ id }) => rows.get(id)!))
  }

  /** Creates the jobs of each call by itself, unless the commit may have succeeded: callers learn of that. */
  fail(error: unknown): void {
    for (const { separately, resolve, reject } of this.#calls) {
      if (error instanceof StoreUnavailable) reject(error)
      else resolve(separately())
    }
  }
}
