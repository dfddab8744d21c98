// When each instance could have begun, and which one it was waiting for last. Instances of tasks inside of fanned groups only wait for
// those of the same item: a scope is the part of a path that says which. Pure; built once for a version of a run's state.

import type { Instance, RunNode, RunState } from "../run/state.ts"

/** What ended last in a scope of a task; of a group, of all that is in it. */
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

  /** `startedAt`: of the run. */
  constructor(state: RunState, startedAt: number | null) {
    this.#state = state
    this.#startedAt = startedAt
    this.#last = state.nodes.map(() => new Map<string, Last>())
    for (const node of state.nodes) {
      for (const instance of node.instances.values()) this.#take(node, instance)
    }
  }

  /** An instance counts for its own task and, further out, for every group around it. */
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

  /** The instance that ended last of all that this one waited for; null when it waited for none. */
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
      // The first tasks of a group wait for what the group waits for.
      node = node.upstream.length > 0 ? null : this.#groupOf(node)
    }
    return null
  }

  /** When nothing was left that it had to wait for; null: not known, or not yet. */
  readyAt(instance: Instance): number | null {
    const before = this.before(instance)
    if (before !== null) return before.finishedAt
    const waits = this.#state.nodes[instance.node]!.upstream.length > 0
    return waits ? null : this.#startedAt
  }
}
