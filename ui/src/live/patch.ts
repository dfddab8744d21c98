// Patches cached data with events. Pure: returns the same object if nothing changes, so that only
// changed parts render again.

import type { Job, JobStatus, OrkEvent, Page, Run, RunStatus, WorkflowSummary } from "../api/types.ts"

const RUN_ENDS: ReadonlySet<string> = new Set<RunStatus>(["success", "failed", "cancelled"])

/** Returns the last event of each run in a batch, by run id. */
export const latestByRun = (events: readonly OrkEvent[]): Map<string, OrkEvent> =>
  new Map(events.flatMap((event) => (event.event === "run" && event.run_id !== null ? [[event.run_id, event] as const] : [])))

export const latestByJob = (events: readonly OrkEvent[]): Map<string, OrkEvent> =>
  new Map(
    events.flatMap((event) => (event.event === "job" && event.job_id !== undefined ? [[event.job_id, event] as const] : [])),
  )

type Times = Pick<Run, "status" | "started_at" | "finished_at" | "idle_ms">

const timesAfter = <T extends Times>(thing: T, { status, at }: OrkEvent): T => {
  if (status === thing.status) return thing
  const ended = RUN_ENDS.has(status)
  return {
    ...thing,
    status: status as RunStatus,
    started_at: status === "running" ? (thing.started_at ?? at) : thing.started_at,
    finished_at: ended ? at : null,
    idle_ms:
      thing.idle_ms + (thing.finished_at === null || ended ? 0 : Math.max(0, Date.parse(at) - Date.parse(thing.finished_at))),
  }
}

export const patchRun = (run: Run, event: OrkEvent | undefined): Run => {
  if (event === undefined) return run
  const next = timesAfter(run, event)
  return next === run ? run : { ...next, error: event.error ?? (RUN_ENDS.has(event.status) ? next.error : null) }
}

export const patchSummary = (workflow: WorkflowSummary, events: ReadonlyMap<string, OrkEvent>): WorkflowSummary => {
  const lastRuns = mapSame(workflow.last_runs, (run) => {
    const event = events.get(run.id)
    return event === undefined ? run : timesAfter(run, event)
  })
  return lastRuns === workflow.last_runs ? workflow : { ...workflow, last_runs: lastRuns }
}

const JOB_ENDS: ReadonlySet<string> = new Set<JobStatus>(["COMPLETED", "FAILED", "BLOCKED"])

export const patchJob = (job: Job, event: OrkEvent | undefined): Job => {
  if (event === undefined || event.status === job.status) return job
  return {
    ...job,
    status: event.status as JobStatus,
    attempt_count: Math.max(job.attempt_count, event.attempt ?? 0),
    error: event.error ?? job.error,
    started_at: event.status === "RUNNING" ? event.at : job.started_at,
    finished_at: JOB_ENDS.has(event.status) ? event.at : null,
    updated_at: event.at,
  }
}

export interface Pages<Item> {
  pages: Page<Item>[]
  pageParams: unknown[]
}

export const patchPages = <Item>(list: Pages<Item> | undefined, patch: (item: Item) => Item): Pages<Item> | undefined => {
  if (list === undefined) return list
  const pages = mapSame(list.pages, (page) => {
    const items = mapSame(page.items, patch)
    return items === page.items ? page : { ...page, items }
  })
  return pages === list.pages ? list : { ...list, pages }
}

/** Like `map`, but returns the same array if no element changed. */
const mapSame = <T>(items: T[], change: (item: T) => T): T[] => {
  let changed = false
  const next = items.map((item) => {
    const made = change(item)
    if (made !== item) changed = true
    return made
  })
  return changed ? next : items
}
