// Estimates the remaining time of a run from the durations of its tasks in earlier runs: the longest chain of unfinished tasks,
// or their total work divided by the slots, whichever is longer.

import { endedCount, type TerminalRun, stateOf, type TerminalTask } from "./terminal-state.ts"
import { isTaskFinished } from "../../core/model/status.ts"

/** Returns milliseconds, or null without earlier runs. `pastDurations`: mean seconds of one instance, by task name. */
export const timeLeft = (
  view: TerminalRun,
  now: number,
  pastDurations: ReadonlyMap<string, number>,
  concurrency: number,
): number | null => {
  if (pastDurations.size === 0) return null
  const overallMean = [...pastDurations.values()].reduce((sum, mean) => sum + mean, 0) / pastDurations.size
  const meanMs = (task: TerminalTask): number => (pastDurations.get(task.name) ?? overallMean) * 1000
  const slots = Math.min(concurrency, view.workflow.concurrency ?? Infinity)

  const ends = new Float64Array(view.tasks.length)
  const latest = (nodes: readonly number[]): number => nodes.reduce((end, node) => Math.max(end, ends[node]!), 0)
  for (const { node, members } of dependencyOrder(view)) {
    const task = view.tasks[node]!
    const width = Math.min(slots, view.workflow.nodes[node]!.concurrency ?? Infinity)
    const own = hasEnded(task)
      ? 0
      : task.group
        ? latest(members)
        : Math.max(0, meanMs(task) * Math.ceil(instancesLeft(task) / width) - elapsedMs(task, now))
    ends[node] = latest(view.workflow.nodes[node]!.upstream) + own
  }

  const leaves = view.tasks.filter((task) => !task.hook && !task.group && !hasEnded(task))
  const work = leaves.reduce((sum, task) => sum + Math.max(0, meanMs(task) * instancesLeft(task) - elapsedMs(task, now)), 0)
  const roots = view.tasks.filter((task) => !task.hook && task.depth === 0).map((task) => task.node)
  return Math.max(work / slots, latest(roots))
}

/** Orders the nodes: each after its upstream, and each group after its members. */
const dependencyOrder = (view: TerminalRun): { node: number; members: number[] }[] => {
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

const hasEnded = (task: TerminalTask): boolean => {
  const state = stateOf(task)
  return state !== "waiting" && isTaskFinished(state)
}

const instancesLeft = (task: TerminalTask): number => Math.max(task.live.size, (task.total ?? 1) - endedCount(task))

/** Returns how long the longest running instance has run. */
const elapsedMs = (task: TerminalTask, now: number): number => {
  let longest = 0
  for (const { status, since } of task.live.values()) {
    if (status === "running") longest = Math.max(longest, now - since)
  }
  return longest
}
