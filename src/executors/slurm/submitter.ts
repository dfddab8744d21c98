// Submits attempts to the cluster: those of one task that arrive together and request the same resources become one array. When
// the response of sbatch is lost, the queue is searched for the job's name before it is submitted again.

import { messageOf } from "../../core/model/error-message.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Assignment } from "../executor.ts"
import { Batcher } from "./batcher.ts"
import { mayHaveArrived } from "./classify.ts"
import type { SlurmCli } from "./cli.ts"
import type { JobFolders } from "./job-folders.ts"
import type { JobLocation, QueuePoller } from "./poller.ts"
import { resourceOptions, sbatchOptions, submitScript } from "./script.ts"

/** Slurm's default limit is 1001 tasks in an array. */
const MAX_ARRAY_SIZE = 1000
const MAX_TRIES = 3
/** Folders that are written concurrently. */
const MAX_CONCURRENT_WRITES = 32

export interface SubmitterParts {
  cli: SlurmCli
  folders: JobFolders
  poller: QueuePoller
  clock: Clock
}

interface PendingSubmission {
  assignment: Assignment
  resolve: (location: JobLocation) => void
  reject: (error: unknown) => void
}

export class Submitter {
  readonly #parts: SubmitterParts
  readonly #batcher: Batcher<PendingSubmission>
  #maxArraySize = MAX_ARRAY_SIZE

  constructor(parts: SubmitterParts) {
    this.#parts = parts
    this.#batcher = new Batcher(
      parts.clock,
      () => this.#maxArraySize,
      (items) => void this.#flush(items),
    )
  }

  /** Reads the cluster's limit of array sizes. Ignores errors: the cluster may be available when something is submitted. */
  async start(): Promise<void> {
    const config = await this.#parts.cli.call("scontrol", ["show", "config"]).catch(() => "")
    const limit = /^MaxArraySize\s*=\s*(\d+)/m.exec(config)?.[1]
    if (limit !== undefined) this.#maxArraySize = Math.max(1, Math.min(MAX_ARRAY_SIZE, Number(limit) - 1))
  }

  /** Resolves when the cluster has accepted the job. */
  submit(assignment: Assignment): Promise<JobLocation> {
    const key = JSON.stringify([assignment.runId, assignment.task, resourceOptions(assignment)])
    return new Promise((resolve, reject) => this.#batcher.add(key, { assignment, resolve, reject }))
  }

  /** Submits a job that an earlier launch prepared and that never reached the cluster. */
  async resubmit(assignment: Assignment, location: JobLocation): Promise<void> {
    await this.#parts.folders.prepare(assignment, location)
    await this.#sbatch(assignment, location, String(location.index))
  }

  async #flush(items: PendingSubmission[]): Promise<void> {
    const [first] = items
    if (first === undefined) return
    const { folders } = this.#parts
    const name = `ork-${first.assignment.attemptId}`
    const jobs = items.map((item, index) => ({ item, location: { name, index } }))
    try {
      for (let at = 0; at < jobs.length; at += MAX_CONCURRENT_WRITES) {
        const some = jobs.slice(at, at + MAX_CONCURRENT_WRITES)
        await Promise.all(some.map(({ item, location }) => folders.prepare(item.assignment, location)))
      }
      const array = items.length === 1 ? null : `0-${items.length - 1}`
      await this.#sbatch(first.assignment, { name, index: 0 }, array)
      for (const { item, location } of jobs) item.resolve(location)
    } catch (error) {
      await Promise.all(jobs.map(({ item, location }) => folders.remove(item.assignment.attemptId, location)))
      for (const { item } of jobs) item.reject(error)
    }
  }

  /** `location`: the first task of the submission. */
  async #sbatch(assignment: Assignment, location: JobLocation, array: string | null): Promise<void> {
    const { cli, folders, poller } = this.#parts
    const { name } = location
    const folder = folders.submission(name)
    const options = sbatchOptions({ name, folder, array, resources: resourceOptions(assignment) })
    for (let tries = 1; ; tries++) {
      try {
        await cli.call("sbatch", options, submitScript(folder))
        return
      } catch (error) {
        if (!mayHaveArrived(messageOf(error)) || tries >= MAX_TRIES) throw error
        if ((await poller.find(location).catch(() => null)) !== null) return
      }
    }
  }
}
