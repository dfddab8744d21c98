// The limits that count how much of a queue runs at once. `putQueue` changes them while nobody writes to `tasks`; who reads them
// has written there already, or says that it will (`enter`), so that a row counts exactly once.

import { queueLimit, queueOf } from "../../core/lanes.ts"
import { anyText } from "./arrays.ts"
import { type Runner, statement } from "./session.ts"

const ENTER = statement("queues_enter", "LOCK TABLE tasks IN ROW EXCLUSIVE MODE")
const ALONE = statement("queues_alone", "LOCK TABLE tasks IN SHARE ROW EXCLUSIVE MODE")

export const enter = (tx: Runner): Promise<unknown> => tx.run(ENTER)

/** Waits for the transactions that have written to tasks, and holds up those that will. */
export const alone = (tx: Runner): Promise<unknown> => tx.run(ALONE)

const FIND = statement("queues_limits", "SELECT id, key FROM limits WHERE key = ANY ($1::text[])")

const keyOf = (lane: string): string | null => {
  const queue = queueOf(lane)
  return queue === null ? null : queueLimit(queue)
}

/** The limit of the queue of each of these lanes; none for most. Sends its statement at once. */
export const queueLimits = async (tx: Runner, lanes: Iterable<string>): Promise<(lane: string) => number[]> => {
  const keys = new Set([...new Set(lanes)].flatMap((lane) => keyOf(lane) ?? []))
  if (keys.size === 0) return () => []
  const found = await tx.run<{ id: number; key: string }>(FIND, [anyText([...keys])])
  if (found.length === 0) return () => []
  const ids = new Map(found.map(({ id, key }) => [key, id]))
  return (lane) => {
    const key = keyOf(lane)
    const id = key === null ? undefined : ids.get(key)
    return id === undefined ? [] : [id]
  }
}
