// Which tasks of an ended run go again: the failed, skipped and cancelled ones; or one task and all below it; or one instance
// and all below. Successes outside of that are kept. Shown to people as a plan before it happens.
//
// Groups are runs in small: inside each the same rules hold, and what goes again inside makes the containers around it wait for
// their children anew, and all below them go again.

import { instanceLane } from "./gate.ts"
import { gateLane, type RunLaneKey, workLane } from "../routing/lanes.ts"
import { isGroup, groupMembers, pathPrefix, taskDisplayName, groupPathLengths } from "../model/task-path.ts"
import { type SkipReason, type TaskStatus, taskEnded, upstreamEnd } from "../model/status.ts"
import { type CompiledWorkflow, rootNodes } from "../model/workflow.ts"

/** A row that is no instance of a plain fan-out: those are as many as there are items. */
export interface NodeState {
  node: number
  path: string
  kind: "task" | "fan" | "group"
  status: TaskStatus
  skipReason: SkipReason | null
  /** Containers: instances, or inner tasks, that were made, and how many there are to be. */
  childrenCreated: number
  total: number | null
}

export interface ResetNode {
  node: number
  path: string
  /**
   * all: from the gate or the queue on. failed: a fan-out keeps its successful instances. path: that instance alone. await: a
   * container keeps its children; those that go again are told by themselves. A fan-out that a cancel cut off in the middle
   * makes the rest of its instances too.
   */
  extent: "all" | "failed" | "await" | { path: string }
  upstreamPending: number
  upstream: { failed: number; unmet: number; waived: number }
  lane: string
  /** Lane of the instances that go again, for fan-outs. */
  instanceLane: string
}

export interface RetryReset {
  nodes: ResetNode[]
  /** When the run ended that the plan was made for: retried and ended again since, it is another one. */
  endedAt?: string
}

export type RetryRequest = { from?: string; instance?: { task: string; path: string } }

/** Names of tasks, inside groups with their path; `and N more` when there are too many. */
export type RetryPlan = { reset: RetryReset; again: string[]; kept: string[] } | { problem: string }

const MOST_NAMED = 1000

/** `states`: of the top level, of what is inside groups, and of the instances of groups. */
export const planRetry = (
  workflow: CompiledWorkflow,
  run: RunLaneKey & { finishedAt?: string | null },
  states: readonly NodeState[],
  request: RetryRequest,
): RetryPlan => {
  const planner = new RetryPlanner(workflow, run, states)
  const { from, instance } = request
  const problem =
    instance !== undefined ? planner.instance(instance.task, instance.path) : from !== undefined ? planner.from(from) : null
  if (problem !== null) return { problem }
  if (from === undefined && instance === undefined && !planner.failed(null, "")) {
    return { problem: "every task succeeded; name a task to retry from" }
  }
  const nodes = planner.nodes()
  const endedAt = typeof run.finishedAt === "string" ? { endedAt: run.finishedAt } : {}
  return { reset: { nodes, ...endedAt }, ...planner.names() }
}

const below = (workflow: CompiledWorkflow, start: number): Set<number> => {
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

interface Named {
  node: number
  path: string
}

const taskKey = (node: number, path: string): string => `${node}/${path}`

class RetryPlanner {
  readonly #workflow: CompiledWorkflow
  readonly #run: RunLaneKey
  readonly #states = new Map<string, NodeState>()
  /** Instances of groups, by the place of their fan-out. */
  readonly #instances = new Map<string, NodeState[]>()
  readonly #resets = new Map<string, ResetNode>()
  /** Scopes in which something goes again, by group and path. */
  readonly #touched = new Map<string, { group: number | null; path: string }>()

  constructor(workflow: CompiledWorkflow, run: RunLaneKey, states: readonly NodeState[]) {
    this.#workflow = workflow
    this.#run = run
    for (const state of states) this.#states.set(taskKey(state.node, state.path), state)
    for (const state of states) {
      if (workflow.nodes[state.node]!.fan === undefined || state.kind === "fan") continue
      const fan = taskKey(state.node, this.#scopePath(state))
      const siblings = this.#instances.get(fan)
      if (siblings === undefined) this.#instances.set(fan, [state])
      else siblings.push(state)
    }
  }

  nodes(): ResetNode[] {
    return [...this.#resets.values()].toSorted((a, b) => a.node - b.node || comparePaths(a.path, b.path))
  }

  names(): { again: string[]; kept: string[] } {
    const again: Named[] = []
    const kept: Named[] = []
    for (const { node, path, extent } of this.#resets.values()) {
      if (extent !== "await") again.push({ node, path: typeof extent === "object" ? extent.path : path })
    }
    for (const { group, path } of this.#touched.values()) {
      for (const node of this.#members(group)) {
        const place = taskKey(node, path)
        if (this.#states.has(place) && !this.#resets.has(place)) kept.push({ node, path })
      }
    }
    return { again: this.#inOrder(again), kept: this.#inOrder(kept) }
  }

  /** As the definition has them, what is in a group in its place, item by item. */
  #inOrder(named: Named[]): string[] {
    const chain = (node: number): number[] => {
      const { group } = this.#workflow.nodes[node]!
      return group === null ? [node] : [...chain(group), node]
    }
    const told = named
      .map(({ node, path }) => ({ name: taskDisplayName(this.#workflow.nodes[node]!.name, path), path, chain: chain(node) }))
      .toSorted((a, b) => a.chain[0]! - b.chain[0]! || comparePaths(a.path, b.path) || compareLists(a.chain, b.chain))
      .map(({ name }) => name)
    return told.length <= MOST_NAMED ? told : [...told.slice(0, MOST_NAMED), `and ${told.length - MOST_NAMED} more`]
  }

  /** What did not succeed in a scope, and in the containers there. False: everything did. */
  failed(group: number | null, path: string): boolean {
    const again = new Set<number>()
    for (const node of this.#members(group)) {
      const state = this.#states.get(taskKey(node, path))
      if (state !== undefined && taskEnded(state.status) && state.status !== "success") again.add(node)
    }
    if (again.size === 0) return false
    for (const node of again) {
      const state = this.#states.get(taskKey(node, path))!
      const waits = this.#workflow.nodes[node]!.upstream.some((up) => again.has(up))
      this.#add(state, waits ? "all" : this.#failedPart(state), again)
    }
    return true
  }

  #failedPart(state: NodeState): ResetNode["extent"] {
    if (state.kind === "task" || state.childrenCreated === 0) return "all"
    if (state.kind === "group") {
      return this.#wholly(state.node, state.path) && this.failed(state.node, state.path) ? "await" : "all"
    }
    if (!isGroup(this.#workflow.nodes[state.node]!)) return "failed"
    const items = this.#instances.get(taskKey(state.node, state.path)) ?? []
    const again = items.filter(({ status }) => status !== "success")
    for (const item of again) this.#add(item, this.#failedPart(item), NOBODY)
    if (again.length > 0) return "await"
    return state.childrenCreated === state.total ? "all" : "failed"
  }

  /** A task and all below it, in every scope that it stands in. */
  from(name: string): string | null {
    const node = this.#find(name)
    const rows = [...this.#states.values()].filter(
      (state) => state.node === node && !this.#isItem(state) && this.#isOpen(state.node, state.path),
    )
    if (rows.length === 0) return `the run has no task ${name}`
    for (const row of rows) this.#start(row, "all")
    return null
  }

  /** One instance of a fan-out, or one task of one item of a group. */
  instance(name: string, path: string): string | null {
    const node = this.#find(name)
    const found = node === -1 ? undefined : this.#states.get(taskKey(node, path))
    if (found !== undefined) return this.#one(found, name)
    const scope = node === -1 ? "" : pathPrefix(path, groupPathLengths(this.#workflow)[node]!)
    const container = this.#states.get(taskKey(node, scope))
    if (container === undefined) return `the run has no task ${name}${node === -1 ? "" : ` at ${path}`}`
    if (container.kind !== "fan") return `task ${name} has no instances; retry from it instead`
    const whole = container.childrenCreated === 0 || isGroup(this.#workflow.nodes[node]!)
    if (whole && container.childrenCreated > 0) return `task ${name} has no instance ${path}`
    this.#start(container, whole ? "all" : { path })
    return null
  }

  #one(state: NodeState, name: string): string | null {
    if (!this.#isOpen(state.node, this.#scopePath(state))) return `the run has no task ${name} at ${state.path}`
    if (!this.#isItem(state)) {
      this.#start(state, "all")
      return null
    }
    const fan = this.#states.get(taskKey(state.node, this.#scopePath(state)))!
    if (fan.childrenCreated === 0) return `task ${name} has no instance ${state.path}`
    this.#add(state, "all", NOBODY)
    this.#start(fan, "await")
    return null
  }

  #find(name: string): number {
    return this.#workflow.nodes.findIndex((node) => node.name === name && node.hook === null)
  }

  /** This row as told, all below it anew, and outwards: its group waits, all below that goes anew. */
  #start(state: NodeState, scope: ResetNode["extent"]): void {
    const { nodes } = this.#workflow
    const { path } = state
    const again = below(this.#workflow, state.node)
    this.#add(state, scope, again)
    for (const node of again) {
      const next = node === state.node ? undefined : this.#states.get(taskKey(node, path))
      if (next !== undefined) this.#add(next, "all", again)
    }
    const { group } = nodes[state.node]!
    if (group === null) return
    const around = this.#states.get(taskKey(group, path))!
    if (!this.#isItem(around)) return this.#start(around, "await")
    this.#add(around, "await", NOBODY)
    this.#start(this.#states.get(taskKey(group, this.#scopePath(around)))!, "await")
  }

  #add(state: NodeState, scope: ResetNode["extent"], again: ReadonlySet<number>): void {
    const { node: index, path } = state
    const node = this.#workflow.nodes[index]!
    const upstream = { failed: 0, unmet: 0, waived: 0 }
    let upstreamLeft = 0
    if (!this.#isItem(state)) {
      for (const up of node.upstream) {
        const above = this.#states.get(taskKey(up, path))
        if (again.has(up)) upstreamLeft += 1
        else if (above !== undefined && taskEnded(above.status)) {
          const end = upstreamEnd(above.status, above.skipReason)
          if (end !== "success") upstream[end] += 1
        }
      }
      this.#touched.set(taskKey(node.group ?? -1, path), { group: node.group, path })
    }
    const place = taskKey(index, path)
    const known = this.#resets.get(place)
    // What another start reaches from above goes as a whole.
    if (known !== undefined && known.extent === "all" && known.upstreamPending >= upstreamLeft) return
    const judged = node.gated || upstream.failed + upstream.unmet > 0
    this.#resets.set(place, {
      node: index,
      path,
      extent: scope,
      upstreamPending: upstreamLeft,
      upstream,
      lane: judged ? gateLane(this.#run) : workLane(this.#run, node),
      instanceLane: instanceLane(this.#run, node),
    })
  }

  #members(group: number | null): readonly number[] {
    return group === null ? rootNodes(this.#workflow) : groupMembers(this.#workflow, group)
  }

  /** Cut off in the middle of its opening, a group lacks some of its tasks. */
  #wholly(group: number, path: string): boolean {
    return this.#members(group).every((node) => this.#states.has(taskKey(node, path)))
  }

  #isItem({ node, kind }: NodeState): boolean {
    return this.#workflow.nodes[node]!.fan !== undefined && kind !== "fan"
  }

  #scopePath({ node, path }: NodeState): string {
    return pathPrefix(path, groupPathLengths(this.#workflow)[node]!)
  }

  /** Whether the groups around this place are open: what an earlier round left in one that is not counts for nothing. */
  #isOpen(node: number, path: string): boolean {
    const { group } = this.#workflow.nodes[node]!
    if (group === null) return true
    const around = this.#states.get(taskKey(group, path))
    if (around === undefined || around.childrenCreated === 0 || !this.#wholly(group, path)) return false
    if (!this.#isItem(around)) return this.#isOpen(group, path)
    const fan = this.#states.get(taskKey(group, this.#scopePath(around)))
    return fan !== undefined && fan.childrenCreated > 0 && this.#isOpen(group, fan.path)
  }
}

/** Items of a group wait for nothing. */
const NOBODY: ReadonlySet<number> = new Set()

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
