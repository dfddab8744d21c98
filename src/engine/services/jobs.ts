// Changes of jobs on behalf of people. Every change wakes the loop, also when the call fails: the commit may have succeeded.

import { UnhandledJobs } from "./unhandled-jobs.ts"
import type { Logger } from "../ports.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { currentActor } from "../../store/contract/audit-scope.ts"
import type { CreateJobsOptions, JobEdit, JobRejection, JobRow, JobStore, NewJob } from "../../store/contract/jobs.ts"
import type { Store } from "../../store/contract/store.ts"

export interface JobServiceOptions {
  store: Pick<JobStore, "createJobs" | "editJob" | "deleteJob" | "cancelJob" | "retryJob"> & Pick<Store, "listHolders">
  clock: Clock
  objects: Pick<ObjectStore, "deletePrefix">
  log: Pick<Logger, "warn">
  wake(): void
}

export class JobService {
  readonly #options: JobServiceOptions
  readonly #unhandled: UnhandledJobs

  constructor(options: JobServiceOptions) {
    this.#options = options
    this.#unhandled = new UnhandledJobs(options)
  }

  /**
   * Creates all of the jobs or none. A job may depend on another of the same call. Unlike `Engine.createWithTurn`, it wakes the loop
   * after the call, and a turn claims the jobs in a commit of its own: the millisecond that a common commit saves matters to a program that
   * waits for the result, not to a request.
   */
  async create(jobs: NewJob[], options?: CreateJobsOptions): Promise<JobRow[] | JobRejection> {
    const createdBy = currentActor()
    const created = await this.#options.store
      .createJobs(
        jobs.map((job) => ({ ...job, createdBy })),
        options,
      )
      .finally(this.#options.wake)
    void this.#unhandled.check(jobs)
    return created
  }

  update(id: string, change: JobEdit): Promise<JobRow | JobRejection> {
    return this.#options.store.editJob(id, change).finally(this.#options.wake)
  }

  cancel(id: string): Promise<JobRow | JobRejection> {
    return this.#options.store.cancelJob(id).finally(this.#options.wake)
  }

  /** Runs a FAILED job again. */
  retry(id: string): Promise<JobRow | JobRejection> {
    return this.#options.store.retryJob(id).finally(this.#options.wake)
  }

  /** Deletes a job and its logs and outputs. Returns the rejection, or null when the job is deleted. */
  async delete(id: string): Promise<JobRejection | null> {
    const { store, objects, log, wake } = this.#options
    const rejected = await store.deleteJob(id).finally(wake)
    if (rejected !== null) return rejected
    await objects
      .deletePrefix(`jobs/${id}/`)
      .catch((error: unknown) => log.warn({ job: id, error: String(error) }, "failed to remove the log of a deleted job"))
    return null
  }
}
