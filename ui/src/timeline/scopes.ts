// Computes when each instance was ready and which instance it waited for last. Instances inside fanned-out groups wait only for
// instances of the same item: a scope is the part of a path that identifies the item. Pure; built once per version of a run's state.

import type { Instance, RunNode, RunState } from "../run/state.ts"

/** The instance that finished last in a scope of a task or, for a group, among all of its tasks. */
interface Last {
  finishedAt: number
  instance: Instance
}

export const scopeOf = (path: string, depth: number): string => {
  if (depth === 0) return ""
  let end = -1
  for (let i = 0; i < depth; i++) {
    end = path.indexOf(".", end + 1)
    if (end === -1) return path
  }
  return path.slice(0, end)
}

export class Scopes {
  readonly #state: RunState
  readonly #last: Map<string, Last>[]
  readonly #startedAt: number | null

  /** `startedAt` is the start of the run. */
  constructor(state: RunState, startedAt: number | null) {
    this.#state = state
    this.#startedAt = startedAt
    this.#last = state.nodes.map(() => new Map<string, Last>())
    for (const node of state.nodes) {
      for (const instance of node.instances.values()) this.#take(node, instance)
    }
  }

  /** Counts an instance for its task and for every enclosing group. */
  #take(node: RunNode, instance: Instance): void {
    const { finishedAt } = instance
    if (finishedAt === null) return
    for (let each: RunNode | null = node; each !== null; each = this.#groupOf(each)) {
      const scope = scopeOf(instance.path, each.around)
      const known = this.#last[each.index]!.get(scope)
      if (known === undefined || finishedAt > known.finishedAt) this.#last[each.index]!.set(scope, { finishedAt, instance })
    }
  }

  #groupOf({ group }: RunNode): RunNode | null {
    return group === null ? null : this.#state.nodes[group]!
  }

  /** Returns the last finished instance among those that this one waited for; null if it waited for none. */
  before(instance: Instance): Instance | null {
    let node: RunNode | null = this.#state.nodes[instance.node]!
    while (node !== null) {
      const scope = scopeOf(instance.path, node.around)
      let last: Last | null = null
      for (const up of node.upstream) {
        const found = this.#last[up]!.get(scope)
        if (found !== undefined && (last === null || found.finishedAt > last.finishedAt)) last = found
      }
      if (last !== null) return last.instance
      // The first tasks of a group wait for the group's upstream tasks.
      node = node.upstream.length > 0 ? null : this.#groupOf(node)
    }
    return null
  }

  /** Returns when the last upstream instance finished; null if unknown or not yet. */
  readyAt(instance: Instance): number | null {
    const before = this.before(instance)
    if (before !== null) return before.finishedAt
    const waits = this.#state.nodes[instance.node]!.upstream.length > 0
    return waits ? null : this.#startedAt
  }
}
