// The limits that count how much of a queue runs at once. `putQueue` changes them while nobody writes to `tasks`; who reads them
// has written there already, or says that it will (`enter`), so that a row counts exactly once.

import { queueLimitKey, queueOfLane } from "../../../core/routing/lanes.ts"
import { anyTextParam } from "../connection/array-params.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const ENTER = statement("queues_enter", "LOCK TABLE tasks IN ROW EXCLUSIVE MODE")
const ALONE = statement("queues_alone", "LOCK TABLE tasks IN SHARE ROW EXCLUSIVE MODE")

/** Before rows of tasks are locked, too: who waits for such a row may be one that `alone` waits for. */
export const announceTaskWrites = (tx: SqlRunner): Promise<unknown> => tx.run(ENTER)

/** Waits for the transactions that have written to tasks, and holds up those that will. */
export const excludeTaskWrites = (tx: SqlRunner): Promise<unknown> => tx.run(ALONE)

const FIND = statement("queues_limits", "SELECT id, key FROM limits WHERE key = ANY ($1::text[])")

const keyOf = (lane: string): string | null => {
  const queue = queueOfLane(lane)
  return queue === null ? null : queueLimitKey(queue)
}

/** The keys of the limits that the queues of these lanes may have. */
export const queueKeys = (lanes: Iterable<string>): string[] => [
  ...new Set([...new Set(lanes)].flatMap((lane) => keyOf(lane) ?? [])),
]

/** A limit of a queue that has one; most have none. */
export interface QueueLimit {
  id: number
  key: string
}

/** The limit of a lane's queue. */
export type LimitOf = (lane: string) => number[]

export const limitsByLane = (found: readonly QueueLimit[]): LimitOf => {
  if (found.length === 0) return () => []
  const ids = new Map(found.map(({ id, key }) => [key, id]))
  return (lane) => {
    const key = keyOf(lane)
    const id = key === null ? undefined : ids.get(key)
    return id === undefined ? [] : [id]
  }
}

/** Sends its statement at once. */
export const queueLimits = async (tx: SqlRunner, lanes: Iterable<string>): Promise<LimitOf> => {
  const keys = queueKeys(lanes)
  return limitsByLane(keys.length === 0 ? [] : await tx.run<QueueLimit>(FIND, [anyTextParam(keys)]))
}
