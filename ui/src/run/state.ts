// The state of one run for its views: the tasks of its graph and their instances with times. Built from the API's responses,
// then updated by events (events.ts). Mutable on purpose: 10,000 instances change many times per second. Times are epoch milliseconds.

import type { InstanceSummary, RunGraph, TaskStatus } from "../api/types.ts"

export interface PastAttempt {
  attempt: number
  status: "success" | "failed" | "timeout" | "lost" | "cancelled"
  dispatchedAt: number | null
  startedAt: number | null
  finishedAt: number | null
}

export interface Instance {
  node: number
  /** `` without fan-out, `3`, inside groups `1.2`. */
  path: string
  /** null without one, and until the instance is loaded. */
  label: string | null
  status: TaskStatus
  attempt: number
  /** Time of the next attempt. */
  availableAt: number | null
  dispatchedAt: number | null
  startedAt: number | null
  finishedAt: number | null
  /** Waits without a slot: a sleep, an approval, deferred work. */
  waiting: boolean
  past: PastAttempt[]
}

/** Returns the name of an instance: `load`, `load[3] rome.csv`. */
export const instanceName = (name: string, { path, label }: Pick<Instance, "path" | "label">): string =>
  `${name}${path === "" ? "" : `[${path}]`}${label === null ? "" : ` ${label}`}`

export type Counts = Record<TaskStatus, number>

export interface RunNode {
  index: number
  name: string
  /** Name within its group. */
  short: string
  executor: string
  isGroup: boolean
  hook: boolean
  /** The reference that a fan-out iterates over. */
  fanOut: string | null
  /** Number of enclosing fanned-out groups, which is the number of indexes in its path. */
  around: number
  group: number | null
  members: number[]
  upstream: number[]
  downstream: number[]
  rule: string
  condition: string | null
  /** Its failure does not fail the run. */
  mayFail: boolean
  /** Status of the task's own row. */
  own: TaskStatus
  counts: Counts
  instances: Map<string, Instance>
  startedAt: number | null
  finishedAt: number | null
}

export interface RunState {
  runId: string
  /** The run is one of a durable function, which has steps. */
  durable: boolean
  nodes: RunNode[]
  byName: Map<string, RunNode>
  /** All instances are loaded; before that only counts are known. */
  complete: boolean
}

export const noCounts = (): Counts => ({
  pending: 0,
  dispatched: 0,
  running: 0,
  success: 0,
  failed: 0,
  skipped: 0,
  cancelled: 0,
})

export const isEnded = (status: TaskStatus): boolean =>
  status === "success" || status === "failed" || status === "skipped" || status === "cancelled"

export const totalOf = (counts: Counts): number => Object.values(counts).reduce((sum, count) => sum + count, 0)

export const endedOf = (counts: Counts): number => counts.success + counts.failed + counts.skipped + counts.cancelled

const ms = (at: string | null): number | null => (at === null ? null : Date.parse(at))

const GROUP_EXECUTOR = "group"

export const newState = (graph: RunGraph): RunState => {
  const indexes = new Map(graph.tasks.map((task, i) => [task.name, i]))
  const nodes = graph.tasks.map((task, index): RunNode => ({
    index,
    name: task.name,
    short: task.group === null ? task.name : task.name.slice(task.group.length + 1),
    executor: task.executor,
    isGroup: task.executor === GROUP_EXECUTOR,
    hook: task.hook !== null,
    fanOut: task.fan_out,
    around: 0,
    group: task.group === null ? null : indexes.get(task.group)!,
    members: [],
    upstream: task.depends_on.map((name) => indexes.get(name)!),
    downstream: [],
    rule: task.run_when,
    condition: task.if,
    mayFail: task.continue_on_error,
    own: task.status,
    counts: { ...task.counts },
    instances: new Map(),
    startedAt: ms(task.started_at),
    finishedAt: ms(task.finished_at),
  }))
  // Groups precede their tasks.
  for (const node of nodes) {
    for (const up of node.upstream) nodes[up]!.downstream.push(node.index)
    if (node.group === null) continue
    const group = nodes[node.group]!
    group.members.push(node.index)
    node.around = group.around + (group.fanOut === null ? 0 : 1)
  }
  return {
    runId: graph.run_id,
    durable: graph.durable,
    nodes,
    byName: new Map(nodes.map((node) => [node.name, node])),
    complete: false,
  }
}

/** Adds instances as listed by the API and updates the counts. */
export const addInstances = (state: RunState, items: readonly InstanceSummary[]): void => {
  for (const item of items) {
    const node = state.byName.get(item.name)
    if (node === undefined) continue
    node.instances.set(item.path, {
      node: node.index,
      path: item.path,
      label: item.label,
      status: item.status,
      attempt: item.attempt,
      availableAt: ms(item.available_at),
      dispatchedAt: ms(item.dispatched_at),
      startedAt: ms(item.started_at),
      finishedAt: ms(item.finished_at),
      waiting: item.waiting !== null,
      past: item.past.map((past) => ({
        attempt: past.attempt,
        status: past.status,
        dispatchedAt: ms(past.dispatched_at),
        startedAt: ms(past.started_at),
        finishedAt: ms(past.finished_at),
      })),
    })
  }
}

/** Marks all instances as loaded; from now on the counts are derived from them. */
export const completeState = (state: RunState): void => {
  for (const node of state.nodes) {
    node.counts = noCounts()
    for (const { status } of node.instances.values()) node.counts[status] += 1
  }
  state.complete = true
}

/** Counts instances by status without hooks, as the run's counters do. */
export const runCounts = (state: RunState): Counts => {
  const sum = noCounts()
  for (const { hook, counts } of state.nodes) {
    if (hook) continue
    for (const status of Object.keys(sum) as TaskStatus[]) sum[status] += counts[status]
  }
  return sum
}
