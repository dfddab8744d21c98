// How long a run will still take, from how long its tasks took in earlier runs. A guess for people: the longest chain of
// what is left, or all of it shared among the slots, whichever is longer.

import { endedCount, type RunView, stateOf, type TaskView } from "./model.ts"
import { taskEnded } from "../../core/model/status.ts"

/** Milliseconds left, or null when nothing is known of earlier runs. `means`: seconds that one instance of a task takes. */
export const timeLeft = (
  view: RunView,
  now: number,
  means: ReadonlyMap<string, number>,
  concurrency: number,
): number | null => {
  if (means.size === 0) return null
  const usual = [...means.values()].reduce((sum, mean) => sum + mean, 0) / means.size
  const meanMs = (task: TaskView): number => (means.get(task.name) ?? usual) * 1000
  const slots = Math.min(concurrency, view.workflow.concurrency ?? Infinity)

  const ends = new Float64Array(view.tasks.length)
  const latest = (nodes: readonly number[]): number => nodes.reduce((end, node) => Math.max(end, ends[node]!), 0)
  for (const { node, members } of inOrder(view)) {
    const task = view.tasks[node]!
    const width = Math.min(slots, view.workflow.nodes[node]!.concurrency ?? Infinity)
    const own = done(task)
      ? 0
      : task.group
        ? latest(members)
        : Math.max(0, meanMs(task) * Math.ceil(leftOf(task) / width) - spent(task, now))
    ends[node] = latest(view.workflow.nodes[node]!.upstream) + own
  }

  const leaves = view.tasks.filter((task) => !task.hook && !task.group && !done(task))
  const work = leaves.reduce((sum, task) => sum + Math.max(0, meanMs(task) * leftOf(task) - spent(task, now)), 0)
  const roots = view.tasks.filter((task) => !task.hook && task.depth === 0).map((task) => task.node)
  return Math.max(work / slots, latest(roots))
}

/** Every node after its upstream, and every group after its members. */
const inOrder = (view: RunView): { node: number; members: number[] }[] => {
  const { nodes } = view.workflow
  const members: number[][] = nodes.map(() => [])
  nodes.forEach((node, i) => node.group !== null && members[node.group]!.push(i))
  const missing = nodes.map((node, i) => node.upstream.length + members[i]!.length)
  const order = missing.flatMap((count, i) => (count === 0 ? [i] : []))
  for (let i = 0; i < order.length; i++) {
    const { downstream, group } = nodes[order[i]!]!
    for (const next of group === null ? downstream : [...downstream, group]) {
      missing[next]! -= 1
      if (missing[next] === 0) order.push(next)
    }
  }
  return order.map((node) => ({ node, members: members[node]! }))
}

const done = (task: TaskView): boolean => {
  const state = stateOf(task)
  return state !== "waiting" && taskEnded(state)
}

const leftOf = (task: TaskView): number => Math.max(task.live.size, (task.total ?? 1) - endedCount(task))

/** What the longest of its running instances has spent already. */
const spent = (task: TaskView, now: number): number => {
  let longest = 0
  for (const { status, since } of task.live.values()) {
    if (status === "running") longest = Math.max(longest, now - since)
  }
  return longest
}
