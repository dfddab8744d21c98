// Queues as both stores list them, and the statistics that are made of them.

import { LANES_OF_QUEUES, queueOfLane } from "../../core/routing/lanes.ts"
import type { RunStatus } from "../../core/model/status.ts"
import type { QueueRow, QueueSettings } from "../contract/queues.ts"
import type { Stats } from "../contract/stats.ts"

export const QUEUE_COLUMNS = "name, concurrency, rate_limit, rate_period_ms, paused"

export interface QueueColumns {
  name: string
  concurrency: number | null
  rate_limit: number | null
  rate_period_ms: number | null
  paused: boolean | number
}

const NO_SETTINGS: QueueSettings = { concurrency: null, rate: null, paused: false }

/** Returns the settings in a row; `undefined`: those of a queue without a row. */
export const settingsOf = (columns: QueueColumns | undefined): QueueSettings => {
  if (columns === undefined) return NO_SETTINGS
  const { concurrency, rate_limit: limit, rate_period_ms: periodMs, paused } = columns
  return { concurrency, rate: limit === null || periodMs === null ? null : { limit, periodMs }, paused: Boolean(paused) }
}

/** Condition: the lane belongs to a queue, not to a private run or the gate. */
export const IN_QUEUE = `(${LANES_OF_QUEUES.map(({ from, to }) => `lane > '${from}' AND lane < '${to}'`).join(" OR ")})`

/** Number of rows in a lane; `ageMs`: age of the oldest ready one, or null. */
export interface LaneCount {
  lane: string
  count: number
  ageMs?: number | null
}

/** Returns the queues by name: those with settings, ready rows, attempts in flight or jobs. */
export const queuesOf = (
  settings: readonly QueueColumns[],
  ready: readonly LaneCount[],
  running: readonly LaneCount[],
  ofJobs: readonly string[],
): QueueRow[] => {
  const queues = new Map<string, QueueRow>()
  const queue = (name: string, columns?: QueueColumns): QueueRow => {
    const row = queues.get(name) ?? { name, ...settingsOf(columns), ready: 0, running: 0, oldestReadyMs: null }
    queues.set(name, row)
    return row
  }
  for (const columns of settings) queue(columns.name, columns)
  for (const { lane, count, ageMs = null } of ready) {
    const row = queue(queueOfLane(lane)!)
    row.ready += count
    if (ageMs !== null) row.oldestReadyMs = Math.max(row.oldestReadyMs ?? 0, ageMs)
  }
  for (const { lane, count } of running) queue(queueOfLane(lane)!).running += count
  for (const name of ofJobs) queue(name)
  return [...queues.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

export const statsOf = (
  runs: ReadonlyMap<RunStatus, number>,
  queues: readonly QueueRow[],
  rest: Pick<Stats, "running" | "databaseBytes">,
): Stats => {
  const ready = queues.filter((queue) => queue.ready > 0)
  const ages = ready.flatMap(({ oldestReadyMs }) => oldestReadyMs ?? [])
  return {
    runs: { pending: runs.get("pending") ?? 0, running: runs.get("running") ?? 0 },
    ready: ready.map(({ name, ready: count }) => ({ queue: name, count })),
    oldestReadyMs: ages.length === 0 ? null : Math.max(...ages),
    ...rest,
  }
}
