// Submits attempts to the cluster: those of one task that arrive together and request the same resources become one array. A
// cluster that accepts no jobs for now is asked again. When the response of sbatch is lost, the queue and the shared
// folder are searched for the jobs before they are submitted again.

import { messageOf } from "../../core/values/error-message.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Assignment } from "../executor.ts"
import { backoff, delay } from "../remote/retry.ts"
import { Batcher } from "./batcher.ts"
import { isPermanent, mayHaveArrived } from "./classify.ts"
import { CommandMissing, type SlurmCli } from "./cli.ts"
import type { JobFolders } from "./job-folders.ts"
import type { JobLocation, QueuePoller } from "./poller.ts"
import { QueueUnavailable } from "./queue.ts"
import { resourceOptions, sbatchOptions, submitScript } from "./script.ts"

/** Slurm's default limit is 1001 tasks in an array. */
const MAX_ARRAY_SIZE = 1000
/** Longest pause between two submissions of the same jobs. */
const MAX_PAUSE_MS = 30_000
/** Folders that are written concurrently. */
const MAX_CONCURRENT_WRITES = 32

export interface SubmitterParts {
  cli: SlurmCli
  folders: JobFolders
  poller: QueuePoller
  clock: Clock
}

export interface SubmitRequest {
  assignment: Assignment
  /** Ends the wait for a cluster that accepts no jobs. */
  signal: AbortSignal
  /** Returns true when another process continues with the attempt. */
  handedOver(): boolean
  /** Receives the reason why the job is not accepted yet. */
  onProblem(reason: string): void
}

interface PendingSubmission extends SubmitRequest {
  resolve: (location: JobLocation | null) => void
  reject: (error: unknown) => void
}

interface PendingJob {
  item: PendingSubmission
  location: JobLocation
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

  /** Resolves when the cluster has accepted the job, however long that takes; with null when it was stopped before. */
  submit(request: SubmitRequest): Promise<JobLocation | null> {
    const { assignment } = request
    const key = JSON.stringify([assignment.runId, assignment.task, resourceOptions(assignment)])
    return new Promise((resolve, reject) =>
      this.#batcher.add(key, { ...request, resolve, reject }, assignment.parallelCount ?? 1),
    )
  }

  /** Submits a job that an earlier launch prepared and that never reached the cluster. */
  resubmit(request: SubmitRequest, location: JobLocation): Promise<JobLocation | null> {
    return new Promise((resolve, reject) => {
      const jobs = [{ item: { ...request, resolve, reject }, location }]
      void this.#submitAll(jobs, location.name, true)
    })
  }

  async #flush(items: PendingSubmission[]): Promise<void> {
    const [first] = items
    if (first === undefined) return
    const name = `ork-${first.assignment.attemptId}`
    const jobs = items.map((item, index) => ({ item, location: { name, index } }))
    await this.#submitAll(jobs, name, items.length > 1)
  }

  async #submitAll(jobs: PendingJob[], name: string, array: boolean): Promise<void> {
    const { folders } = this.#parts
    try {
      for (let at = 0; at < jobs.length; at += MAX_CONCURRENT_WRITES) {
        const some = jobs.slice(at, at + MAX_CONCURRENT_WRITES)
        await Promise.all(some.map(({ item, location }) => folders.prepare(item.assignment, location)))
      }
      for (const { item, location } of await this.#untilAccepted(jobs, name, array)) item.resolve(location)
    } catch (error) {
      await Promise.all(jobs.map(({ item, location }) => folders.remove(item.assignment.attemptId, location)))
      for (const { item } of jobs) item.reject(error)
    }
  }

  /** Submits the jobs again and again, without those that were stopped in the meantime. Resolves with the accepted ones. */
  async #untilAccepted(all: PendingJob[], name: string, array: boolean): Promise<PendingJob[]> {
    const { clock } = this.#parts
    let jobs = all
    let mayExist = false
    for (let failures = 0; jobs.some(({ item }) => !item.handedOver()); failures++) {
      try {
        if (mayExist && (await this.#hasArrived(jobs))) return jobs
        mayExist = false
        jobs = await this.#withoutStopped(jobs)
        if (jobs.length === 0) return []
        await this.#sbatch(jobs, name, array)
        return jobs
      } catch (error) {
        const message = messageOf(error)
        if (!(error instanceof QueueUnavailable) && (error instanceof CommandMissing || isPermanent(message))) throw error
        mayExist ||= mayHaveArrived(message)
        for (const { item } of jobs) item.onProblem(message)
        const signals = jobs.flatMap(({ item }) => (item.signal.aborted ? [] : [item.signal]))
        await delay(clock, backoff(failures, MAX_PAUSE_MS), AbortSignal.any(signals))
      }
    }
    for (const { item } of jobs) item.resolve(null)
    return []
  }

  /** Returns true when the cluster has accepted the jobs, which it does with all or none: the queue may have forgotten some. */
  async #hasArrived(jobs: readonly PendingJob[]): Promise<boolean> {
    const { folders, poller } = this.#parts
    const found = await Promise.all(jobs.map(({ location }) => poller.find(location)))
    if (found.some((job) => job !== null)) return true
    for (const { location } of jobs) if (await folders.wasStarted(location)) return true
    return false
  }

  /** Releases the jobs that were stopped. Files stay for a process that continues with the attempt. */
  async #withoutStopped(jobs: PendingJob[]): Promise<PendingJob[]> {
    for (const { item, location } of jobs) {
      if (!item.signal.aborted) continue
      if (!item.handedOver()) await this.#parts.folders.remove(item.assignment.attemptId, location)
      item.resolve(null)
    }
    return jobs.filter(({ item }) => !item.signal.aborted)
  }

  async #sbatch(jobs: PendingJob[], name: string, array: boolean): Promise<void> {
    const { cli, folders } = this.#parts
    const folder = folders.submission(name)
    const indexes = jobs.map(({ location }) => location.index)
    const resources = resourceOptions(jobs[0]!.item.assignment)
    const options = sbatchOptions({ name, folder, array: array ? rangesOf(indexes) : null, resources })
    await cli.call("sbatch", options, submitScript(folder))
  }
}

/** Formats growing numbers as sbatch accepts them: `0-3,7`. */
const rangesOf = (indexes: number[]): string => {
  const ranges: [from: number, to: number][] = []
  for (const index of indexes) {
    const last = ranges.at(-1)
    if (last !== undefined && last[1] === index - 1) last[1] = index
    else ranges.push([index, index])
  }
  return ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`)).join(",")
}
