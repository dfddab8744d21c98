// The limits that count how many rows of a queue run. A transaction that counts rows against a queue's limit first takes a lock on the
// table `tasks` that `putQueue` excludes. So a change of the setting and a claim never overlap, and each row counts exactly once.

import { queueOfLane } from "../../../core/routing/lanes.ts"
import { queueLimitKey } from "../../../core/routing/limit-keys.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

const ANNOUNCE = statement("queues_announce_writes", "LOCK TABLE tasks IN ROW EXCLUSIVE MODE")
const EXCLUDE = statement("queues_exclude_writes", "LOCK TABLE tasks IN SHARE ROW EXCLUSIVE MODE")

/** Locks the table `tasks` as a write does, which other writes do not wait for. Call it before row locks: in the other order, `lockTasksAgainstWrites` could deadlock with this transaction. */
export const lockTasksForWrite = (tx: SqlRunner): Promise<unknown> => tx.run(ANNOUNCE)

/** Waits for transactions that have written to `tasks`, and blocks those that will. */
export const lockTasksAgainstWrites = (tx: SqlRunner): Promise<unknown> => tx.run(EXCLUDE)

const FIND = statement("queues_limits", "SELECT id, key FROM limits WHERE key = ANY (:keys::text[])")

const keyOf = (lane: string): string | null => {
  const queue = queueOfLane(lane)
  return queue === null ? null : queueLimitKey(queue)
}

/** Returns the keys of the limits that the queues of these lanes may have. */
export const queueKeys = (lanes: Iterable<string>): string[] => [
  ...new Set([...new Set(lanes)].flatMap((lane) => keyOf(lane) ?? [])),
]

/** A limit of a queue. Most queues have none. */
export interface QueueLimit {
  id: number
  key: string
}

/** Returns the limit of a lane's queue, as a list of one or none. */
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

/** Sends its statement before it returns. */
export const queueLimits = async (tx: SqlRunner, lanes: Iterable<string>): Promise<LimitOf> => {
  const keys = queueKeys(lanes)
  return limitsByLane(keys.length === 0 ? [] : await tx.run<QueueLimit>(FIND, { keys }))
}
