// The current state of each box of a graph. A store outside React's state: when a batch of events changes ten boxes of a thousand,
// only those ten render again.

import { createContext, use, useCallback, useSyncExternalStore } from "react"
import type { TaskStatus } from "../api/types.ts"
import { type Counts, noCounts, type RunNode, type RunState, totalOf } from "../run/state.ts"
import { retryAtOf, statusOf } from "../run/status.ts"

export interface BoxView {
  status: TaskStatus
  /** Label of an instance. */
  label: string | null
  /** Counts of a task with several instances. */
  counts: Counts | null
  retryAt: number | null
  startedAt: number | null
  finishedAt: number | null
}

/** Computes the state of a group from everything inside it. */
const countsOf = (state: RunState, node: RunNode): Counts => {
  if (!node.isGroup) return node.counts
  const sum = noCounts()
  for (const index of node.members) {
    const inside = countsOf(state, state.nodes[index]!)
    for (const status of Object.keys(sum) as TaskStatus[]) sum[status] += inside[status]
  }
  return sum
}

export class GraphFeed {
  readonly #listeners = new Set<() => void>()
  readonly #known = new Map<string, { key: string; view: BoxView }>()
  #state: RunState | null = null

  publish(state: RunState): void {
    this.#state = state
    for (const listener of this.#listeners) listener()
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Returns the same object while nothing changes; null for the graph of a workflow. */
  view(name: string, path: string): BoxView | null {
    const node = this.#state?.byName.get(name)
    if (this.#state === null || node === undefined) return null
    const instance = path === "" ? undefined : node.instances.get(path)
    const counts = countsOf(this.#state, node)
    // The times of a task without fan-out are those of its latest attempt; in a back-off there are none.
    const times = node.isGroup || node.fanOut !== null ? node : (node.instances.get("") ?? node)
    const view: BoxView =
      instance === undefined
        ? {
            status: statusOf(this.#state, node),
            label: null,
            counts: totalOf(counts) > 1 || (node.fanOut !== null && !node.isGroup) ? counts : null,
            retryAt: retryAtOf(node),
            startedAt: times.startedAt,
            finishedAt: times.finishedAt,
          }
        : {
            status: instance.status,
            label: instance.label,
            counts: null,
            retryAt: instance.status === "pending" ? instance.availableAt : null,
            startedAt: instance.startedAt,
            finishedAt: instance.finishedAt,
          }
    const key = [
      view.status,
      view.label,
      view.retryAt,
      view.startedAt,
      view.finishedAt,
      ...Object.values(view.counts ?? {}),
    ].join()
    const id = `${name}[${path}`
    const known = this.#known.get(id)
    if (known?.key === key) return known.view
    const made = { key, view: view.counts === null ? view : { ...view, counts: { ...view.counts } } }
    this.#known.set(id, made)
    return made.view
  }
}

export const FeedContext = createContext<GraphFeed | null>(null)

const never = (): (() => void) => () => undefined

export const useBoxView = (name: string, path: string): BoxView | null => {
  const feed = use(FeedContext)
  const snapshot = useCallback(() => feed?.view(name, path) ?? null, [feed, name, path])
  return useSyncExternalStore(feed?.subscribe ?? never, snapshot)
}
