// Statistics, users of slots, and outcomes set by hand.

import type { RunId } from "../../core/model/ids.ts"
import type { RunStatus } from "../../core/model/status.ts"

export interface StatsStore {
  /**
   * Sets the outcome of a task. A pending task finishes with it and unblocks downstream tasks. A finished task changes its status;
   * the counters of its run and the status of a closed run follow. Returns `in_flight` for a claimed task, which cannot be changed,
   * and `retry_waits` while a retry of the run waits for its place: the tasks to run again are already chosen.
   */
  overrideOutcome(input: {
    runId: RunId
    name: string
    path: string
    status: "success" | "failed"
    reason: string
  }): Promise<"done" | "in_flight" | "retry_waits" | "not_found">
  /** Lists what uses slots of a limit, oldest first: display names `task[path]` of tasks in flight and open groups, names of jobs. */
  slotUsers(key: string, limit: number): Promise<string[]>
  /** Reads statistics from indexes of unfinished rows. */
  stats(): Promise<Stats>
  /** Counts the open runs of each workflow by status. */
  countActiveRuns(): Promise<{ workflow: string; status: RunStatus; count: number }[]>
  /** Lists runs that finished after an instant and up to another one, earliest first. */
  listFinishedRuns(query: { after: string; until: string; limit: number }): Promise<FinishedRun[]>
  /** Adds counts to those of the same minutes, for the times keeps the greater, and forgets what is older than `keptMinutes`. */
  addActivity(minutes: ActivityMinute[], keptMinutes: number): Promise<void>
  /** Lists minutes with activity since this one, oldest first. */
  listActivity(since: number): Promise<ActivityMinute[]>
}

export interface FinishedRun {
  workflow: string
  status: RunStatus
  /** null: the run was cancelled before its start. */
  startedAt: string | null
  finishedAt: string
  /** Time between its end and its retries. */
  idleMs: number
}

export interface ActivityMinute {
  /** Minutes since the epoch. */
  minute: number
  success: number
  failed: number
  dispatchP50Ms: number | null
  dispatchP95Ms: number | null
  /** null: not known. */
  ready: number | null
  running: number | null
}

export interface Stats {
  runs: { pending: number; running: number }
  /** Number of ready tasks and jobs by queue. */
  ready: { queue: string; count: number }[]
  running: number
  /** Age of the oldest ready row, or null. */
  oldestReadyMs: number | null
  databaseBytes: number
}
