// Warns in the log about jobs that no live worker handles: they wait until a worker with a handler for their queue connects.

import { acceptsNode } from "./explain.ts"
import type { Logger } from "../ports.ts"
import type { Clock } from "../../core/model/ports.ts"
import { jobWorkflow } from "../../core/rules/job-node.ts"
import type { NewJob } from "../../store/contract/jobs.ts"
import type { Store } from "../../store/contract/store.ts"

/** Minimum time between two checks of a queue. */
const CHECK_MS = 60_000

export class UnhandledJobs {
  readonly #options: { store: Pick<Store, "listHolders">; clock: Clock; log: Pick<Logger, "warn"> }
  readonly #checkedAt = new Map<string, number>()

  constructor(options: { store: Pick<Store, "listHolders">; clock: Clock; log: Pick<Logger, "warn"> }) {
    this.#options = options
  }

  /** Checks the queues of new jobs without a task. Does not fail. */
  async check(jobs: readonly NewJob[]): Promise<void> {
    const { store, clock, log } = this.#options
    const due = jobs.filter(({ task, queue }) => {
      const checkedAt = this.#checkedAt.get(queue) ?? Number.NEGATIVE_INFINITY
      return task === null && clock.monotonic() - checkedAt >= CHECK_MS
    })
    const byQueue = new Map(due.map((job) => [job.queue, job]))
    if (byQueue.size === 0) return
    for (const queue of byQueue.keys()) this.#checkedAt.set(queue, clock.monotonic())
    try {
      const holders = (await store.listHolders()).filter(({ dead }) => !dead)
      for (const [queue, job] of byQueue) {
        const node = jobWorkflow(job).nodes[0]!
        if (holders.some((holder) => acceptsNode(holder, node))) continue
        log.warn({ queue, job: job.id }, "no live worker handles the jobs of a queue; they wait until one does")
      }
    } catch (error) {
      log.warn({ error: String(error) }, "failed to check which workers handle a job")
    }
  }
}
