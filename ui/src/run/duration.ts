// The duration of a run: the breaks before its retries do not count.

import type { Run } from "../api/types.ts"

export type RunTimes = Pick<Run, "started_at" | "finished_at" | "idle_ms">

/** Returns milliseconds, until now while the run is open; null before its start. */
export const runDuration = ({ started_at, finished_at, idle_ms }: RunTimes, now: number): number | null => {
  if (started_at === null) return null
  return Math.max(0, (finished_at === null ? now : Date.parse(finished_at)) - Date.parse(started_at) - idle_ms)
}
