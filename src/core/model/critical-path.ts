// The critical path: the chain of tasks that determined when a run finished. Shared by the terminal and the web UI, which apply
// it to tasks and to instances.

export interface Timed {
  startedAt: number | null
  finishedAt: number | null
}

/** Returns the item that finished last; the first of several. */
export const latestFinished = <Item extends Timed>(items: Iterable<Item>): Item | null => {
  let latest: Item | null = null
  for (const item of items) {
    if (item.finishedAt !== null && (latest === null || item.finishedAt > latest.finishedAt!)) latest = item
  }
  return latest
}

/**
 * Walks back from `last`, the item that finished last, over the item that each one waited for longest (`before`). Returns the
 * items that have started, oldest first; skipped items are left out, but the walk continues over them.
 */
export const criticalPath = <Item extends Timed>(last: Item | null, before: (item: Item) => Item | null): Item[] => {
  const path: Item[] = []
  const seen = new Set<Item>()
  for (let item = last; item !== null && !seen.has(item); item = before(item)) {
    seen.add(item)
    if (item.startedAt !== null) path.push(item)
  }
  return path.toReversed()
}
