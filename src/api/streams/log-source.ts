// The logs of the attempts that a request asks for: the log of one attempt; or, for a followed task or job, the log of its latest attempt
// and of every later attempt until it finishes.

import { isJobFinished } from "../../core/rules/jobs/jobs.ts"
import { isTaskFinished } from "../../core/model/status.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import { attemptPrefix, jobAttemptPrefix } from "../../objects/objects.ts"
import type { JobRow } from "../../store/contract/jobs.ts"
import type { TaskRow } from "../../store/contract/store.ts"
import { invalidField } from "../shared/errors.ts"
import type { Api } from "../http/ports.ts"
import { ChangeWatcher, type WatchTarget } from "./change-watcher.ts"

export interface AttemptLog {
  log: TaskLog
  /** Aborted when the attempt has finished. Undefined when it had finished before. */
  ended?: AbortSignal
}

export type LogSource = (signal: AbortSignal) => AsyncIterable<AttemptLog>

/** Current state of a followed task or job. */
interface FollowedState {
  /** Number of the latest attempt. */
  attempt: number
  /** The latest attempt is in flight. */
  inFlight: boolean
  /** No further attempt will follow. */
  ended: boolean
  /** Returns the log of an attempt, or null when the attempt is unknown. */
  logOf(attempt: number): Promise<TaskLog | null>
}

interface Followed {
  target: WatchTarget
  /** Returns null when the task or job no longer exists. */
  readState(): Promise<FollowedState | null>
  /** Follows only this attempt. */
  only?: number | undefined
}

const follow = (api: Api, { target, readState, only }: Followed): LogSource =>
  async function* attempts(signal) {
    const watcher = await ChangeWatcher.open(api.feed, target, signal)
    let attempt = only ?? 0
    while (!signal.aborted) {
      const state = await readState()
      if (state === null) return
      if (attempt === 0) attempt = Math.max(1, state.attempt)
      const log = state.attempt >= attempt ? await state.logOf(attempt) : null
      if (log !== null) {
        const inFlight = state.inFlight && state.attempt === attempt
        yield inFlight ? { log, ended: endOfAttempt(attempt, signal, watcher, readState) } : { log }
        if (only !== undefined) return
        attempt += 1
      } else if (state.attempt > attempt) attempt += 1
      else if (state.ended) return
      else await watcher.nextChange()
    }
  }

/** Returns a signal that is aborted when the attempt has finished or the reader has disconnected. */
const endOfAttempt = (
  attempt: number,
  signal: AbortSignal,
  watcher: ChangeWatcher,
  readState: Followed["readState"],
): AbortSignal => {
  const ended = new AbortController()
  const wait = async (): Promise<void> => {
    while (!signal.aborted) {
      const state = await readState()
      if (state === null || !state.inFlight || state.attempt > attempt) return
      await watcher.nextChange()
    }
  }
  // An unavailable store ends the stream too: the reader reconnects.
  void wait()
    .catch(() => undefined)
    .finally(() => ended.abort())
  return ended.signal
}

// -- tasks ---------------------------------------------------------------------------------------------------------------------

/** Returns the id of an attempt, or null. The attempt id of a pending task may belong to a claim of the gate, not to an attempt. */
const attemptIdOf = async (api: Api, task: TaskRow, attempt: number): Promise<string | null> => {
  if (task.attempt === attempt && task.status !== "pending" && task.attemptId !== null) return task.attemptId
  const past = await api.store.listAttempts(task.row)
  const found = past.find((each) => each.attempt === attempt)
  return found?.attemptId ?? (task.attempt === attempt && task.lastAttemptState !== null ? task.attemptId : null)
}

const taskLog = async (api: Api, task: TaskRow, attempt: number): Promise<TaskLog | null> => {
  const prefix = await objectsOfAttempt(api, task, attempt)
  return prefix === null ? null : new TaskLog(api.objects, prefix)
}

/** Returns the prefix of the objects of an attempt, by default of the latest, or null when there is none. */
export const objectsOfAttempt = async (api: Api, task: TaskRow, attempt = task.attempt): Promise<string | null> => {
  if (attempt > task.attempt) throw invalidField("attempt", `task ${task.name} has had ${task.attempt} attempts`)
  const id = attempt === 0 ? null : await attemptIdOf(api, task, attempt)
  return id === null ? null : attemptPrefix(task.runId, task.name, id)
}

/** Returns the log of an attempt, by default of the latest, or null when there is none. */
export const currentLog = (api: Api, task: TaskRow, attempt: number | undefined): Promise<TaskLog | null> =>
  taskLog(api, task, attempt ?? task.attempt)

export const followTask = (api: Api, task: TaskRow, only: number | undefined): LogSource => {
  const { runId, name, path } = task
  const readState = async (): Promise<FollowedState | null> => {
    const now = await api.store.getTask({ runId, name, path })
    if (now === null) return null
    const ended = isTaskFinished(now.status)
    const inFlight = !ended && now.status !== "pending"
    return { attempt: now.attempt, inFlight, ended, logOf: (attempt) => taskLog(api, now, attempt) }
  }
  const matches: WatchTarget["matches"] = (event) => event.type === "run" || (event.task === name && event.path === path)
  return follow(api, { target: { runId, matches }, readState, only })
}

// -- jobs ----------------------------------------------------------------------------------------------------------------------

export const jobLog = (api: Api, job: JobRow): TaskLog | null =>
  job.attemptId === null ? null : new TaskLog(api.objects, jobAttemptPrefix(job.id, job.attemptId))

export const followJob = (api: Api, job: JobRow): LogSource => {
  const readState = async (): Promise<FollowedState | null> => {
    const now = await api.store.getJob(job.id)
    if (now === null) return null
    return {
      attempt: now.attemptCount,
      inFlight: now.status === "RUNNING",
      ended: isJobFinished(now.status),
      logOf: async (attempt) => (attempt === now.attemptCount ? jobLog(api, now) : null),
    }
  }
  const matches: WatchTarget["matches"] = (event) => event.type === "job" && event.jobId === job.id
  return follow(api, { target: { runId: null, matches }, readState })
}
