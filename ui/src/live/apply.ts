// Applies batches of events to the query cache: cached data is patched at once; what cannot be patched (a new run in a list,
// counts of tasks, statistics) is fetched again, each kind at a limited rate.

import type { QueryClient } from "@tanstack/react-query"
import type { Job, OrkEvent, Run, WorkflowSummary } from "../api/types.ts"
import { latestByJob, latestByRun, type Pages, patchJob, patchPages, patchRun, patchSummary } from "./patch.ts"

/** Shortest time between two fetches of a kind, per loaded page, because all loaded pages are fetched. */
const REFETCH_MS = 500
const MAX_MS = 5000

interface Waiting {
  /** Events have arrived since the last fetch. */
  again: boolean
  cancel: () => void
}

export class LiveCache {
  readonly #client: QueryClient
  readonly #after: (ms: number, run: () => void) => () => void
  readonly #waiting = new Map<string, Waiting>()

  constructor(client: QueryClient, after: (ms: number, run: () => void) => () => void) {
    this.#client = client
    this.#after = after
  }

  apply(events: readonly OrkEvent[]): void {
    const runs = latestByRun(events)
    const jobs = latestByJob(events)
    if (runs.size > 0) this.#runs(runs)
    if (jobs.size > 0) this.#jobs(jobs)
    for (const id of new Set(events.flatMap((event) => (event.event === "task" ? (event.run_id ?? []) : [])))) {
      if (this.#client.getQueryData(["run", id]) !== undefined) this.refetchSoon("run", id)
    }
    if (events.some((event) => event.event === "task")) this.refetchSoon("runs")
  }

  /** Fetches everything that is shown. */
  reload(): void {
    void this.#client.invalidateQueries()
  }

  /** Fetches now, or at the end of the current interval. */
  refetchSoon(...key: string[]): void {
    const name = key.join("/")
    const waiting = this.#waiting.get(name)
    if (waiting !== undefined) {
      waiting.again = true
      return
    }
    void this.#client.invalidateQueries({ queryKey: key })
    const entry: Waiting = {
      again: false,
      cancel: this.#after(this.#refetchDelay(key), () => {
        this.#waiting.delete(name)
        if (entry.again) this.refetchSoon(...key)
      }),
    }
    this.#waiting.set(name, entry)
  }

  #refetchDelay(key: readonly string[]): number {
    const lists = this.#client.getQueriesData<Partial<Pages<unknown>>>({ queryKey: key })
    const pages = Math.max(1, ...lists.map(([, list]) => list?.pages?.length ?? 1))
    return Math.min(MAX_MS, REFETCH_MS * pages)
  }

  stop(): void {
    for (const { cancel } of this.#waiting.values()) cancel()
    this.#waiting.clear()
  }

  #runs(events: ReadonlyMap<string, OrkEvent>): void {
    const known = new Set<string>()
    const patch = (run: Run): Run => {
      known.add(run.id)
      return patchRun(run, events.get(run.id))
    }
    this.#client.setQueriesData<Pages<Run>>({ queryKey: ["runs"] }, (list) => patchPages(list, patch))
    this.#client.setQueriesData<Pages<WorkflowSummary>>({ queryKey: ["workflows"] }, (list) =>
      patchPages(list, (workflow) => patchSummary(workflow, events)),
    )
    for (const [id, event] of events) {
      this.#client.setQueryData<Run>(["run", id], (run) => (run === undefined ? run : patchRun(run, event)))
      if (!known.has(id)) this.refetchSoon("runs")
    }
    this.refetchSoon("workflows")
  }

  #jobs(events: ReadonlyMap<string, OrkEvent>): void {
    this.#client.setQueriesData<Pages<Job>>({ queryKey: ["jobs"] }, (list) =>
      patchPages(list, (job) => patchJob(job, events.get(job.id))),
    )
    for (const [id, event] of events) {
      this.#client.setQueryData<Job>(["job", id], (job) => (job === undefined ? job : patchJob(job, event)))
      if (this.#client.getQueryData(["job", id]) !== undefined) this.refetchSoon("job", id)
    }
    this.refetchSoon("jobs")
    this.refetchSoon("queues")
  }
}
