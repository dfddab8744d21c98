// The attempts whose logs a request asks for: one; or, when a task is followed, its latest and those that come after it until the
// task ends.

import { taskEnded } from "../core/status.ts"
import { TaskLog } from "../objects/logs.ts"
import { attemptPrefix, jobAttemptPrefix } from "../objects/objects.ts"
import { isTerminalJob } from "../core/jobs.ts"
import type { JobRow } from "../store/job-store.ts"
import type { TaskRow } from "../store/store.ts"
import { invalidField } from "./errors.ts"
import type { Api } from "./ports.ts"
import { TaskWatch } from "./task-watch.ts"

export interface AttemptLog {
  log: TaskLog
  /** Aborted when the attempt is over; one that is over already has none. */
  ended?: AbortSignal
}

export type LogSource = (signal: AbortSignal) => AsyncIterable<AttemptLog>

/** How often a followed job is looked at: jobs have no events of their own. */
const LOOK_MS = 500

const attemptIdOf = async (api: Api, task: TaskRow, attempt: number): Promise<string | null> => {
  if (task.attempt === attempt && task.status !== "pending" && task.attemptId !== null) return task.attemptId
  const past = await api.store.listAttempts(task.row)
  const found = past.find((each) => each.attempt === attempt)
  return found?.attemptId ?? (task.attempt === attempt && task.outcome !== null ? task.attemptId : null)
}

const attemptOver = (task: TaskRow, attempt: number): boolean =>
  task.attempt > attempt || task.status === "pending" || taskEnded(task.status)

const logOf = (api: Api, task: TaskRow, attemptId: string): TaskLog =>
  new TaskLog(api.objects, attemptPrefix(task.runId, task.name, attemptId))

/** What is there now. `attempt` undefined: the latest. */
export const presentLog = async (api: Api, task: TaskRow, attempt: number | undefined): Promise<TaskLog | null> => {
  if (attempt !== undefined && attempt > task.attempt) {
    throw invalidField("attempt", `task ${task.name} has had ${task.attempt} attempts`)
  }
  const wanted = attempt ?? task.attempt
  const id = wanted === 0 ? null : await attemptIdOf(api, task, wanted)
  return id === null ? null : logOf(api, task, id)
}

export const followTask = (api: Api, task: TaskRow, only: number | undefined): LogSource =>
  async function* follow(signal) {
    const watch = await TaskWatch.open(api.feed, task, signal)
    const look = (): Promise<TaskRow | null> => api.store.getTask({ runId: task.runId, name: task.name, path: task.path })
    let attempt = only ?? Math.max(1, task.attempt)
    while (!signal.aborted) {
      const now = await look()
      if (now === null) return
      const id = now.attempt >= attempt ? await attemptIdOf(api, now, attempt) : null
      if (id !== null) {
        yield attemptOver(now, attempt)
          ? { log: logOf(api, now, id) }
          : { log: logOf(api, now, id), ended: until(signal, watch, look, attempt) }
        if (only !== undefined) return
        attempt += 1
      } else if (taskEnded(now.status)) return
      else await watch.changed()
    }
  }

/** Aborted when the attempt is over or the reader is gone. */
const until = (signal: AbortSignal, watch: TaskWatch, look: () => Promise<TaskRow | null>, attempt: number): AbortSignal => {
  const over = new AbortController()
  void (async () => {
    try {
      while (!signal.aborted) {
        const now = await look()
        if (now === null || attemptOver(now, attempt)) break
        await watch.changed()
      }
    } finally {
      over.abort()
    }
  })().catch(() => undefined)
  return over.signal
}

export const jobLog = (api: Api, job: JobRow): TaskLog | null =>
  job.attemptId === null ? null : new TaskLog(api.objects, jobAttemptPrefix(job.id, job.attemptId))

export const followJob = (api: Api, job: JobRow): LogSource =>
  async function* follow(signal) {
    let told: string | null = null
    while (!signal.aborted) {
      const now = await api.store.getJob(job.id)
      if (now === null) return
      const log = jobLog(api, now)
      if (log !== null && now.attemptId !== told) {
        told = now.attemptId
        yield now.status === "RUNNING" ? { log, ended: untilJob(api, signal, job.id, told!) } : { log }
      } else if (isTerminalJob(now.status)) return
      else await pause(api, signal)
    }
  }

const untilJob = (api: Api, signal: AbortSignal, id: string, attemptId: string): AbortSignal => {
  const over = new AbortController()
  void (async () => {
    try {
      while (!signal.aborted) {
        const now = await api.store.getJob(id)
        if (now === null || now.attemptId !== attemptId || now.status !== "RUNNING") break
        await pause(api, signal)
      }
    } finally {
      over.abort()
    }
  })().catch(() => undefined)
  return over.signal
}

const pause = (api: Api, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const cancel = api.clock.after(LOOK_MS, resolve)
    signal.addEventListener(
      "abort",
      () => {
        cancel()
        resolve()
      },
      { once: true },
    )
  })
