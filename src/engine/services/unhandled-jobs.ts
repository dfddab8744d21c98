// Warns in the log about jobs that no live process runs: they wait until one has a handler for their queue, or the function that they call.

import { acceptsNode } from "./explain.ts"
import type { Logger } from "../ports.ts"
import type { Clock } from "../../core/model/ports.ts"
import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import { jobWorkflow } from "../../core/rules/jobs/job-workflow.ts"
import type { NewJob } from "../../store/contract/jobs.ts"
import type { Store } from "../../store/contract/store.ts"

/** Minimum time between two checks of a queue. */
const CHECK_MS = 60_000

/** Returns what runs the job: a handler of its queue, or a function. null: another task, which every worker of the queue runs. */
const runnerOf = ({ task, queue }: NewJob): string | null => {
  if (task === null) return `queue ${queue}`
  const { executor, function: called } = task
  return executor === FUNCTION_EXECUTOR && typeof called === "string" ? `function ${called}` : null
}

export class UnhandledJobs {
  readonly #options: { store: Pick<Store, "listHolders">; clock: Clock; log: Pick<Logger, "warn"> }
  readonly #checkedAt = new Map<string, number>()

  constructor(options: { store: Pick<Store, "listHolders">; clock: Clock; log: Pick<Logger, "warn"> }) {
    this.#options = options
  }

  /** Checks new jobs that a handler or function runs. Does not fail. */
  async check(jobs: readonly NewJob[]): Promise<void> {
    const { store, clock, log } = this.#options
    const due = new Map<string, NewJob>()
    const now = clock.monotonic()
    for (const job of jobs) {
      const runner = runnerOf(job)
      if (runner !== null && now - (this.#checkedAt.get(runner) ?? Number.NEGATIVE_INFINITY) >= CHECK_MS) due.set(runner, job)
    }
    if (due.size === 0) return
    for (const runner of due.keys()) this.#checkedAt.set(runner, now)
    try {
      const holders = (await store.listHolders()).filter(({ dead }) => !dead)
      for (const job of due.values()) {
        const node = jobWorkflow(job).nodes[0]!
        if (holders.some((holder) => acceptsNode(holder, node))) continue
        const { queue, id } = job
        if (node.function === undefined)
          log.warn({ queue, job: id }, "no live worker handles the jobs of a queue; they wait until one does")
        else
          log.warn({ function: node.function, job: id }, "no live process runs the function of a job; it waits until one does")
      }
    } catch (error) {
      log.warn({ error: String(error) }, "failed to check which workers handle a job")
    }
  }
}
