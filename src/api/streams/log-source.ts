// The attempts whose logs a request asks for: one; or, when a task or job is followed, its latest and those that come after it
// until it ends.

import { isTerminalJob } from "../../core/rules/jobs.ts"
import { taskEnded } from "../../core/model/status.ts"
import { TaskLog } from "../../objects/logs/logs.ts"
import { attemptPrefix, jobAttemptPrefix } from "../../objects/objects.ts"
import type { JobRow } from "../../store/contract/jobs.ts"
import type { TaskRow } from "../../store/contract/store.ts"
import { invalidField } from "../http/errors.ts"
import type { Api } from "../http/ports.ts"
import { ChangeWatcher, type WatchTarget } from "./change-watcher.ts"

export interface AttemptLog {
  log: TaskLog
  /** Aborted when the attempt is over; one that is over already has none. */
  ended?: AbortSignal
}

export type LogSource = (signal: AbortSignal) => AsyncIterable<AttemptLog>

/** How a task or job stands. */
interface Standing {
  attempt: number
  /** The latest attempt lives. */
  live: boolean
  /** There will be no other attempt. */
  ended: boolean
  /** The log of an attempt; null: none that is known. */
  logOf(attempt: number): Promise<TaskLog | null>
}

type Look = () => Promise<Standing | null>

const follow = (api: Api, watched: WatchTarget, look: Look, only?: number): LogSource =>
  async function* attempts(signal) {
    const watch = await ChangeWatcher.open(api.feed, watched, signal)
    let attempt = only ?? 0
    while (!signal.aborted) {
      const now = await look()
      if (now === null) return
      if (attempt === 0) attempt = Math.max(1, now.attempt)
      const log = now.attempt >= attempt ? await now.logOf(attempt) : null
      if (log !== null) {
        const live = now.live && now.attempt === attempt
        yield live ? { log, ended: endOf(attempt, signal, watch, look) } : { log }
        if (only !== undefined) return
        attempt += 1
      } else if (now.attempt > attempt) attempt += 1
      else if (now.ended) return
      else await watch.nextChange()
    }
  }

/** Aborted when the attempt is over or the reader is gone. */
const endOf = (attempt: number, signal: AbortSignal, watch: ChangeWatcher, look: Look): AbortSignal => {
  const over = new AbortController()
  const wait = async (): Promise<void> => {
    while (!signal.aborted) {
      const now = await look()
      if (now === null || !now.live || now.attempt > attempt) return
      await watch.nextChange()
    }
  }
  // When the store is away the follower ends as well: its reader asks again.
  void wait()
    .catch(() => undefined)
    .finally(() => over.abort())
  return over.signal
}

// -- tasks ---------------------------------------------------------------------------------------------------------------------

/** While a task is pending, its row's attempt id may be that of a look at its gate. */
const attemptIdOf = async (api: Api, task: TaskRow, attempt: number): Promise<string | null> => {
  if (task.attempt === attempt && task.status !== "pending" && task.attemptId !== null) return task.attemptId
  const past = await api.store.listAttempts(task.row)
  const found = past.find((each) => each.attempt === attempt)
  return found?.attemptId ?? (task.attempt === attempt && task.outcome !== null ? task.attemptId : null)
}

const taskLog = async (api: Api, task: TaskRow, attempt: number): Promise<TaskLog | null> => {
  const id = attempt === 0 ? null : await attemptIdOf(api, task, attempt)
  return id === null ? null : new TaskLog(api.objects, attemptPrefix(task.runId, task.name, id))
}

/** What is there now. `attempt` undefined: the latest. */
export const currentLog = (api: Api, task: TaskRow, attempt: number | undefined): Promise<TaskLog | null> => {
  if (attempt !== undefined && attempt > task.attempt) {
    throw invalidField("attempt", `task ${task.name} has had ${task.attempt} attempts`)
  }
  return taskLog(api, task, attempt ?? task.attempt)
}

export const followTask = (api: Api, task: TaskRow, only: number | undefined): LogSource => {
  const { runId, name, path } = task
  const look: Look = async () => {
    const now = await api.store.getTask({ runId, name, path })
    if (now === null) return null
    const ended = taskEnded(now.status)
    const live = !ended && now.status !== "pending"
    return { attempt: now.attempt, live, ended, logOf: (attempt) => taskLog(api, now, attempt) }
  }
  const concerns: WatchTarget["matches"] = (event) => event.type === "run" || (event.task === name && event.path === path)
  return follow(api, { runId, matches: concerns }, look, only)
}

// -- jobs ----------------------------------------------------------------------------------------------------------------------

export const jobLog = (api: Api, job: JobRow): TaskLog | null =>
  job.attemptId === null ? null : new TaskLog(api.objects, jobAttemptPrefix(job.id, job.attemptId))

export const followJob = (api: Api, job: JobRow): LogSource => {
  const look: Look = async () => {
    const now = await api.store.getJob(job.id)
    if (now === null) return null
    return {
      attempt: now.attemptCount,
      live: now.status === "RUNNING",
      ended: isTerminalJob(now.status),
      logOf: async (attempt) => (attempt === now.attemptCount ? jobLog(api, now) : null),
    }
  }
  return follow(api, { runId: null, matches: (event) => event.type === "job" && event.jobId === job.id }, look)
}
