// One run as its views need it: the tasks of its graph, and under each its instances with their times. Built from the API's answers,
// then kept up by events (events.ts). Mutable on purpose: 10,000 instances change many times a second. Times are epoch milliseconds.

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
  /** `` without fan-out, `3`, inside of groups `1.2`. */
  path: string
  status: TaskStatus
  attempt: number
  /** When it is tried again. */
  availableAt: number | null
  dispatchedAt: number | null
  startedAt: number | null
  finishedAt: number | null
  /** It goes on without a slot: a sleep, an approval, work elsewhere. */
  waiting: boolean
  past: PastAttempt[]
}

export type Counts = Record<TaskStatus, number>

export interface RunNode {
  index: number
  name: string
  /** Its name within its group. */
  short: string
  executor: string
  isGroup: boolean
  hook: boolean
  /** It has instances of its own: the reference that it fans out over. */
  fanOut: string | null
  /** How many fanned groups are around it: how many indexes its own path has. */
  around: number
  group: number | null
  members: number[]
  upstream: number[]
  downstream: number[]
  rule: string
  condition: string | null
  /** Told of the task as a whole. */
  own: TaskStatus
  counts: Counts
  instances: Map<string, Instance>
  startedAt: number | null
  finishedAt: number | null
}

export interface RunState {
  runId: string
  nodes: RunNode[]
  byName: Map<string, RunNode>
  /** Every instance is known; before that there are only counts. */
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
    own: task.status,
    counts: { ...task.counts },
    instances: new Map(),
    startedAt: ms(task.started_at),
    finishedAt: ms(task.finished_at),
  }))
  // Groups come before what is in them.
  for (const node of nodes) {
    for (const up of node.upstream) nodes[up]!.downstream.push(node.index)
    if (node.group === null) continue
    const group = nodes[node.group]!
    group.members.push(node.index)
    node.around = group.around + (group.fanOut === null ? 0 : 1)
  }
  return { runId: graph.run_id, nodes, byName: new Map(nodes.map((node) => [node.name, node])), complete: false }
}

/** Adds instances as the API lists them; the counts are then theirs. */
export const addInstances = (state: RunState, items: readonly InstanceSummary[]): void => {
  for (const item of items) {
    const node = state.byName.get(item.name)
    if (node === undefined) continue
    node.instances.set(item.path, {
      node: node.index,
      path: item.path,
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

/** All instances are there: from now on the counts follow them. */
export const completeState = (state: RunState): void => {
  for (const node of state.nodes) {
    node.counts = noCounts()
    for (const { status } of node.instances.values()) node.counts[status] += 1
  }
  state.complete = true
}

/** Instances of every task but hooks, by status: what the run's own counts say. */
export const runCounts = (state: RunState): Counts => {
  const sum = noCounts()
  for (const { hook, counts } of state.nodes) {
    if (hook) continue
    for (const status of Object.keys(sum) as TaskStatus[]) sum[status] += counts[status]
  }
  return sum
}
