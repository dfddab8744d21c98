// What people look into and set right by hand: why a task waits, how much there is to do, a task that is marked.

import type { RunId } from "../../core/model/ids.ts"

export interface StatsStore {
  /**
   * Ends a task by hand. A pending one ends as marked and releases what is below; one that has ended changes its status, and
   * with it what its run counts, and a run that has ended what it ended as. `live`: it runs, or is being judged just now.
   */
  overrideOutcome(input: {
    runId: RunId
    name: string
    path: string
    status: "success" | "failed"
    reason: string
  }): Promise<"done" | "live" | "not_found">
  /** Who holds slots of a limit: display names `task[path]` of live rows and open groups, oldest first; the names of jobs. */
  limitHolders(key: string, limit: number): Promise<string[]>
  /** From indexes of what has not ended: costs nothing of the history. */
  stats(): Promise<Stats>
}

export interface Stats {
  runs: { pending: number; running: number }
  /** Ready tasks and jobs of shared work, by queue. */
  ready: { queue: string; count: number }[]
  running: number
  /** How long the oldest ready one has been waiting, or null. */
  oldestReadyMs: number | null
  databaseBytes: number
}
