// What a turn tells: one event per change of a run's or a task's status, in order.

import { iso } from "../../../core/model/ports.ts"
import type { TaskStatus } from "../../../core/model/status.ts"
import { isJobRow, jobStatus } from "../../shared/job-rows.ts"
import { renewalEmitsEvent, waitingView } from "../../../core/model/waiting-on.ts"
import type { StoreEvent } from "../../contract/store.ts"
import type { CancelledRow } from "./cancel-pending.ts"
import type { Changed, Task } from "./changes.ts"
import type { ClaimedRow } from "../claim/claimed-row.ts"
import type { Closed } from "./close-runs.ts"
import type { AttemptChanges } from "./coalesce-changes.ts"
import { jobEvent } from "../jobs/edges.ts"
import type { RunInfo } from "../cache/cache.ts"
import type { Workflows } from "../admin/workflows.ts"

export interface Told {
  workflows: Workflows
  /** The instant of the transaction. */
  at: string
  events: StoreEvent[]
}

interface Place {
  runId: StoreEvent["runId"]
  versionId: number
  node: number
  path: string
}

type News = Pick<StoreEvent, "availableAt" | "total" | "waiting" | "progress"> & {
  status: TaskStatus
  at: string
  attempt: number
  error?: string | null | undefined
}

const emitTask = ({ workflows, events }: Told, place: Place, { status, at, attempt, error, ...rest }: News): void => {
  const task = workflows.now(place.versionId).nodes[place.node]!.name
  const event: StoreEvent = { type: "task", runId: place.runId, task, path: place.path, attempt, status, at, ...rest }
  if (error !== undefined && error !== null) event.error = error
  events.push(event)
}

/** RUNNING begins with the claim: the start itself changes nothing. */
const emitJob = ({ events }: Told, id: string, { status, at, ...rest }: Omit<News, "attempt">): void => {
  if (status !== "running") events.push(jobEvent(id, jobStatus(status), at, rest))
}

/** Results of one batch mostly share their milliseconds. */
const isoMemo = (): ((ms: number) => string) => {
  let last = Number.NaN
  let text = ""
  return (ms) => {
    if (ms !== last) [last, text] = [ms, iso(ms)]
    return text
  }
}

export const emitChanges = (
  told: Told,
  tasks: readonly Task[],
  { applied, expanded }: Pick<Changed, "applied" | "expanded">,
): void => {
  const instant = isoMemo()
  for (const { held, step, deleted } of tasks) {
    const { attempt } = held
    const tell = (news: Omit<News, "attempt">, count = attempt): void => {
      if (!isJobRow(held.runSeq)) emitTask(told, held, { attempt: count, ...news })
      else if (deleted !== true) emitJob(told, held.path, news)
    }
    if (expanded.has(step)) {
      const [{ kind, total }] = step.expands as [AttemptChanges["expands"][number]]
      tell({ status: "running", at: told.at, ...(kind === "expand" && { total }) })
    }
    const outcome = applied.get(step)
    if (outcome === undefined) continue
    if (step.start !== null && !held.started) tell({ status: "running", at: instant(step.start.at) })
    if (step.progress !== null) {
      const { fraction, details } = step.progress
      const status = held.started || step.start !== null ? "running" : "dispatched"
      tell({ status, at: told.at, progress: { fraction, details } })
    }
    const { final } = step
    switch (final?.kind) {
      case "wait": {
        const { startedAt, wakeAt } = outcome.wait!
        const at = held.started ? told.at : startedAt
        const begins = held.gate && !held.started
        if (held.gate && held.started && !renewalEmitsEvent(final.waitingOn)) break
        tell({ status: "running", at, waiting: waitingView(final.waitingOn, wakeAt) }, begins ? attempt + 1 : attempt)
        break
      }
      case "finish":
      case "retry": {
        const { startedAt, finishedAt, error } = final.result
        // A start that was not reported on its own is told before the end.
        if (startedAt !== null && !held.started && step.start === null) tell({ status: "running", at: instant(startedAt) })
        if (final.kind === "finish") tell({ status: final.status, at: instant(finishedAt), error })
        else {
          const { availableAt } = outcome
          tell({ status: "pending", at: told.at, error, ...(availableAt === null ? {} : { availableAt }) })
        }
        break
      }
      case "skip":
        tell({ status: "skipped", at: told.at, error: final.reason })
        break
      case "fail":
        tell({ status: "failed", at: told.at, error: final.error })
        break
      case "reuse":
        tell({ status: "success", at: told.at })
        break
      case "gather":
        tell({ status: final.status, at: told.at, error: final.error })
        break
      case "release":
        if (!held.gate) tell({ status: "pending", at: told.at }, attempt - 1)
        break
      case "enqueue":
      case undefined:
        break
      default:
        final satisfies never
    }
  }
}

export const emitCancelled = (told: Told, rows: readonly CancelledRow[], runs: ReadonlyMap<number, RunInfo>): void => {
  for (const { run_seq, node, path, attempt } of rows) {
    const run = runs.get(run_seq)!
    const place = { runId: run.id, versionId: run.versionId, node, path }
    emitTask(told, place, { status: "cancelled", at: told.at, attempt })
  }
}

export const emitClosed = ({ at, events }: Told, closed: Closed): void => {
  for (const { runId, status, error } of closed.runs)
    events.push({ type: "run", runId, status, at, ...(error === null ? {} : { error }) })
  for (const { id } of closed.started) events.push({ type: "run", runId: id, status: "running", at })
}

export const emitClaims = (told: Told, claims: readonly ClaimedRow[]): void => {
  for (const { run_seq, run_id: runId, version_id: versionId, node, path, attempt } of claims)
    if (isJobRow(run_seq)) emitJob(told, path, { status: "dispatched", at: told.at })
    else emitTask(told, { runId, versionId, node, path }, { status: "dispatched", at: told.at, attempt })
}
