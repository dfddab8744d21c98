// Keys of limits. The prefix tells what a limit counts; a lane `q:QUEUE` (lanes.ts) is something else:
//
//   r:RUN               tasks of a run (`concurrency` of the workflow)
//   t:RUN:NODE          instances of a task, or openings of a group, of a run (`concurrency` of the task)
//   k:WORKFLOW:TASK:KEY tasks with the same `concurrency_key`, in all runs of the workflow
//   k:job:QUEUE:KEY     jobs of a queue with the same concurrency key
//   k:limit:KEY         jobs with the same key among their `limits`
//   q:QUEUE             tasks and jobs of a queue (its `concurrency`)

import { indexKey } from "../values/index-key.ts"

const RUN = "r:"
const TASK = "t:"
const KEY = "k:"
const QUEUE = "q:"

/** Prefixes for SQL conditions on `key`. */
export const LIMIT_PREFIX = { run: RUN, task: TASK, key: KEY, queue: QUEUE } as const

export const runLimitKey = (runId: string): string => `${RUN}${runId}`

export const taskLimitKey = (runId: string, node: number): string => `${TASK}${runId}:${node}`

export const concurrencyLimitKey = (workflowId: number, task: string, key: string): string =>
  `${KEY}${workflowId}:${task}:${indexKey(key)}`

export const jobLimitKey = (queue: string, key: string): string => `${KEY}job:${queue}:${indexKey(key)}`

const SHARED = `${KEY}limit:`

export const sharedLimitKey = (key: string): string => `${SHARED}${indexKey(key)}`

/** Returns whether the limit is one of the `limits` of jobs. */
export const isSharedLimit = (key: string): boolean => key.startsWith(SHARED)

export const queueLimitKey = (queue: string): string => `${QUEUE}${queue}`

/** Returns whether the limit is one of a concurrency key, which exists only while unfinished rows are under it. */
export const isKeyLimit = (key: string): boolean => key.startsWith(KEY)

/** Returns the queue to whose `concurrency` a limit belongs; null for other limits. */
export const queueOfLimit = (key: string): string | null => (key.startsWith(QUEUE) ? key.slice(QUEUE.length) : null)

/** Returns the task or group to whose `concurrency` a limit belongs; null for other limits. */
export const taskOfLimit = (key: string): { runId: string; node: number } | null => {
  const [, runId, node] = key.startsWith(TASK) ? key.split(":") : []
  return runId === undefined || node === undefined ? null : { runId, node: Number(node) }
}
