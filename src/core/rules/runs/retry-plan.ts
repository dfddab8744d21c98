// Plans a retry of a closed run: the failed, skipped and cancelled tasks; or one task and everything below it; or one instance and
// everything below it. Other successes are kept. Users can see the plan before it is applied.
//
// The same rules hold inside each group. A reset inside a group makes the containers around it wait for their children again, and
// everything below those containers runs again.

import { countedOutcome } from "../changes/effects.ts"
import { instanceLane } from "../changes/gate.ts"
import { gateLane, type RunLaneKey, workLane } from "../../routing/lanes.ts"
import { enclosingPath, groupMembers, isGroup, isInstance, taskDisplayName, taskKey } from "../../model/task-path.ts"
import type { RowKind } from "../../model/row.ts"
import { type SkipReason, type TaskStatus, isTaskFinished } from "../../model/status.ts"
import type { CompiledWorkflow } from "../../model/workflow.ts"

/** State of a row. Instances of a fan-out are left out, unless they are groups: there may be many. */
export interface RowState {
  node: number
  path: string
  kind: RowKind
  status: TaskStatus
  skipReason: SkipReason | null
  /** For containers: how many instances or inner tasks exist, and how many there are to be. */
  childrenCreated: number
  total: number | null
}

export interface RowReset {
  node: number
  path: string
  /**
   * all: the row starts over. failed: a fan-out keeps its successful instances. path: only that instance starts over. await: a
   * container keeps its children, and those that start over have a reset of their own. A fan-out that a cancel interrupted also
   * creates its missing instances.
   */
  extent: "all" | "failed" | "await" | { path: string }
  upstreamPending: number
  upstream: { failed: number; unmet: number; waived: number }
  lane: string
  /** For fan-outs: lane of the instances that run again. */
  instanceLane: string
  /** For durable functions: recorded steps that run again, beside those that failed. */
  steps?: StepKey[]
}

/** A step of a durable function. */
export interface StepKey {
  name: string
  /** Counts the steps of this name, from 0. */
  occurrence: number
}

/** Row of a planned reset, as the store finds it. */
export interface ResetRow {
  kind: RowKind
  childrenCreated: number
  childrenTotal: number | null
}

/**
 * Returns whether a retry resets a row as a whole: a container then creates its children again. Otherwise it keeps them, and an
 * interrupted fan-out creates those that are missing.
 */
export const resetsWhole = ({ kind, childrenCreated, childrenTotal }: ResetRow, extent: RowReset["extent"]): boolean =>
  kind === "task" || extent === "all" || childrenCreated === 0 || (kind === "group" && childrenCreated !== childrenTotal)

export interface RetryReset {
  rows: RowReset[]
  /** When the run closed. A run that was retried and closed again since then rejects the plan. */
  endedAt?: string
}

/** `steps`: recorded steps of the durable function `from` that run again. */
export type RetryRequest = { from?: string; instance?: { task: string; path: string }; steps?: StepKey[] }

/** `again` and `kept` list display names of tasks. */
export type RetryPlan = { reset: RetryReset; again: string[]; kept: string[] } | { problem: string }

/** Plans a retry. `states` covers the top level, the inside of groups, and the instances of groups. */
export const planRetry = (
  workflow: CompiledWorkflow,
  run: RunLaneKey & { finishedAt?: string | null },
  states: readonly RowState[],
  request: RetryRequest,
): RetryPlan => {
  const planner = new RetryPlanner(workflow, run, states)
  const problem = planner.plan(request)
  if (problem !== null) return { problem }
  const endedAt = typeof run.finishedAt === "string" ? { endedAt: run.finishedAt } : {}
  const { from, steps } = request
  const rows = planner
    .resets()
    .map((reset) => (steps !== undefined && workflow.nodes[reset.node]!.name === from ? { ...reset, steps } : reset))
  return { reset: { rows, ...endedAt }, ...planner.names() }
}

const withDownstream = (workflow: CompiledWorkflow, start: number): Set<number> => {
  const found = new Set<number>([start])
  const queue = [start]
  for (let node = queue.pop(); node !== undefined; node = queue.pop()) {
    for (const next of workflow.nodes[node]!.downstream) {
      if (found.has(next)) continue
      found.add(next)
      queue.push(next)
    }
  }
  return found
}

interface TaskAddress {
  node: number
  path: string
}

class RetryPlanner {
  readonly #workflow: CompiledWorkflow
  readonly #run: RunLaneKey
  readonly #states = new Map<string, RowState>()
  /** Instances of groups, by the key of their fan-out. */
  readonly #instances = new Map<string, RowState[]>()
  readonly #resets = new Map<string, RowReset>()
  /** Groups (null: the top level) in which something runs again, each with its path. */
  readonly #touched = new Map<string, { group: number | null; path: string }>()

  constructor(workflow: CompiledWorkflow, run: RunLaneKey, states: readonly RowState[]) {
    this.#workflow = workflow
    this.#run = run
    for (const state of states) this.#states.set(taskKey(state.node, state.path), state)
    for (const state of states) {
      if (!this.#isInstance(state)) continue
      const fan = taskKey(state.node, this.#enclosingPath(state))
      const siblings = this.#instances.get(fan)
      if (siblings === undefined) this.#instances.set(fan, [state])
      else siblings.push(state)
    }
  }

  /** Returns why the request cannot be planned, or null. */
  plan({ from, instance }: RetryRequest): string | null {
    if (instance !== undefined) return this.#planInstance(instance.task, instance.path)
    if (from !== undefined) return this.#planFrom(from)
    return this.#resetUnsuccessful(null, "") ? null : "every task succeeded; name a task to retry from"
  }

  resets(): RowReset[] {
    return [...this.#resets.values()].toSorted((a, b) => a.node - b.node || comparePaths(a.path, b.path))
  }

  names(): { again: string[]; kept: string[] } {
    const again: TaskAddress[] = []
    const kept: TaskAddress[] = []
    for (const { node, path, extent } of this.#resets.values()) {
      if (extent !== "await") again.push({ node, path: typeof extent === "object" ? extent.path : path })
    }
    for (const { group, path } of this.#touched.values()) {
      for (const node of groupMembers(this.#workflow, group)) {
        const key = taskKey(node, path)
        if (this.#states.has(key) && !this.#resets.has(key)) kept.push({ node, path })
      }
    }
    return { again: this.#displayNames(again), kept: this.#displayNames(kept) }
  }

  /** Returns names in the order of the definition, with the tasks of a group at the group's position, instance by instance. */
  #displayNames(tasks: TaskAddress[]): string[] {
    const ancestry = (node: number): number[] => {
      const { group } = this.#workflow.nodes[node]!
      return group === null ? [node] : [...ancestry(group), node]
    }
    return tasks
      .map(({ node, path }) => ({
        name: taskDisplayName(this.#workflow.nodes[node]!.name, path),
        path,
        ancestry: ancestry(node),
      }))
      .toSorted(
        (a, b) => a.ancestry[0]! - b.ancestry[0]! || comparePaths(a.path, b.path) || compareLists(a.ancestry, b.ancestry),
      )
      .map(({ name }) => name)
  }

  /** Resets everything in a group that did not succeed, including the containers there. Returns false when everything succeeded. */
  #resetUnsuccessful(group: number | null, path: string): boolean {
    const again = new Set<number>()
    for (const node of groupMembers(this.#workflow, group)) {
      const state = this.#states.get(taskKey(node, path))
      if (state !== undefined && isTaskFinished(state.status) && state.status !== "success") again.add(node)
    }
    for (const node of again) {
      const state = this.#states.get(taskKey(node, path))!
      const hasUpstream = this.#workflow.nodes[node]!.upstream.some((up) => again.has(up))
      this.#reset(state, hasUpstream ? "all" : this.#unsuccessfulExtent(state), again)
    }
    return again.size > 0
  }

  #unsuccessfulExtent(state: RowState): RowReset["extent"] {
    if (state.kind === "task" || state.childrenCreated === 0) return "all"
    if (state.kind === "group") {
      return this.#isComplete(state.node, state.path) && this.#resetUnsuccessful(state.node, state.path) ? "await" : "all"
    }
    if (!isGroup(this.#workflow.nodes[state.node]!)) return "failed"
    const items = this.#instances.get(taskKey(state.node, state.path)) ?? []
    const again = items.filter(({ status }) => status !== "success")
    for (const item of again) this.#reset(item, this.#unsuccessfulExtent(item), NONE)
    if (again.length > 0) return "await"
    return state.childrenCreated === state.total ? "all" : "failed"
  }

  /** Resets a task and everything below it, in every instance of the groups around it. */
  #planFrom(name: string): string | null {
    const node = this.#find(name)
    const rows = [...this.#states.values()].filter(
      (state) => state.node === node && !this.#isInstance(state) && this.#isInOpenGroup(state.node, state.path),
    )
    if (rows.length === 0) return `the run has no task ${name}`
    for (const row of rows) this.#resetWithDownstream(row, "all")
    return null
  }

  /** Resets one instance of a fan-out, or one task of one instance of a group. */
  #planInstance(name: string, path: string): string | null {
    const node = this.#find(name)
    if (node === -1) return `the run has no task ${name}`
    const row = this.#states.get(taskKey(node, path))
    if (row !== undefined) return this.#planRow(row, name)
    const container = this.#states.get(taskKey(node, enclosingPath(this.#workflow, node, path)))
    if (container === undefined) return `the run has no task ${name} at ${path}`
    if (container.kind !== "fan") return `task ${name} has no instances; retry from it instead`
    if (container.childrenCreated === 0) {
      this.#resetWithDownstream(container, "all")
      return null
    }
    if (isGroup(this.#workflow.nodes[node]!)) return `task ${name} has no instance ${path}`
    this.#resetWithDownstream(container, { path })
    return null
  }

  #planRow(state: RowState, name: string): string | null {
    if (!this.#isInOpenGroup(state.node, this.#enclosingPath(state))) return `the run has no task ${name} at ${state.path}`
    if (!this.#isInstance(state)) {
      this.#resetWithDownstream(state, "all")
      return null
    }
    const fan = this.#states.get(taskKey(state.node, this.#enclosingPath(state)))!
    if (fan.childrenCreated === 0) return `task ${name} has no instance ${state.path}`
    this.#reset(state, "all", NONE)
    this.#resetWithDownstream(fan, "await")
    return null
  }

  #find(name: string): number {
    return this.#workflow.nodes.findIndex((node) => node.name === name && node.hook === null)
  }

  /** Resets the row to the given extent and everything below it completely; then the same for the containers around it. */
  #resetWithDownstream(state: RowState, extent: RowReset["extent"]): void {
    const { path } = state
    const again = withDownstream(this.#workflow, state.node)
    this.#reset(state, extent, again)
    for (const node of again) {
      const below = node === state.node ? undefined : this.#states.get(taskKey(node, path))
      if (below !== undefined) this.#reset(below, "all", again)
    }
    const { group } = this.#workflow.nodes[state.node]!
    if (group === null) return
    const container = this.#states.get(taskKey(group, path))!
    if (!this.#isInstance(container)) return this.#resetWithDownstream(container, "await")
    this.#reset(container, "await", NONE)
    this.#resetWithDownstream(this.#states.get(taskKey(group, this.#enclosingPath(container)))!, "await")
  }

  /** Records the reset of one row. `again`: the siblings that run again too. */
  #reset(state: RowState, extent: RowReset["extent"], again: ReadonlySet<number>): void {
    const { node: index, path } = state
    const node = this.#workflow.nodes[index]!
    const { upstream, upstreamPending } = this.#countUpstream(state, again)
    if (!this.#isInstance(state)) this.#touched.set(taskKey(node.group ?? -1, path), { group: node.group, path })
    const key = taskKey(index, path)
    const known = this.#resets.get(key)
    // A complete reset that waits for at least as many upstreams includes this one.
    if (known !== undefined && known.extent === "all" && known.upstreamPending >= upstreamPending) return
    const gated = node.gated || upstream.failed + upstream.unmet > 0
    this.#resets.set(key, {
      node: index,
      path,
      extent,
      upstreamPending,
      upstream,
      lane: gated ? gateLane(this.#run) : workLane(this.#run, node),
      instanceLane: instanceLane(this.#run, node),
    })
  }

  /** Counts the upstreams that run again, and the outcomes of the others. Instances have no upstream of their own. */
  #countUpstream(state: RowState, again: ReadonlySet<number>): Pick<RowReset, "upstream" | "upstreamPending"> {
    const upstream = { failed: 0, unmet: 0, waived: 0 }
    let upstreamPending = 0
    if (this.#isInstance(state)) return { upstream, upstreamPending }
    for (const up of this.#workflow.nodes[state.node]!.upstream) {
      const above = this.#states.get(taskKey(up, state.path))
      if (again.has(up)) upstreamPending += 1
      else if (above !== undefined && isTaskFinished(above.status)) {
        const end = countedOutcome(this.#workflow.nodes[up]!, above.kind, above.status, above.skipReason)
        if (end !== "success") upstream[end] += 1
      }
    }
    return { upstream, upstreamPending }
  }

  /** Returns false for a group that a cancel interrupted before all of its rows existed. */
  #isComplete(group: number, path: string): boolean {
    return groupMembers(this.#workflow, group).every((node) => this.#states.has(taskKey(node, path)))
  }

  #isInstance({ node, kind }: RowState): boolean {
    return isInstance(this.#workflow.nodes[node]!, kind)
  }

  #enclosingPath({ node, path }: RowState): string {
    return enclosingPath(this.#workflow, node, path)
  }

  /** Returns whether all groups around a row are open. Rows that an earlier generation left in a closed group do not count. */
  #isInOpenGroup(node: number, path: string): boolean {
    const { group } = this.#workflow.nodes[node]!
    if (group === null) return true
    const container = this.#states.get(taskKey(group, path))
    if (container === undefined || container.childrenCreated === 0 || !this.#isComplete(group, path)) return false
    if (!this.#isInstance(container)) return this.#isInOpenGroup(group, path)
    const fan = this.#states.get(taskKey(group, this.#enclosingPath(container)))
    return fan !== undefined && fan.childrenCreated > 0 && this.#isInOpenGroup(group, fan.path)
  }
}

/** Instances of a group wait for no sibling. */
const NONE: ReadonlySet<number> = new Set()

const comparePaths = (a: string, b: string): number => (a === b ? 0 : compareLists(indexesOf(a), indexesOf(b)))

const indexesOf = (path: string): number[] => (path === "" ? [] : path.split(".").map(Number))

const compareLists = (a: readonly number[], b: readonly number[]): number => {
  for (const [i, number] of a.entries()) {
    const other = b[i]
    if (other === undefined) return 1
    if (number !== other) return number - other
  }
  return a.length - b.length
}
