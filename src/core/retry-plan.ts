// Which tasks of an ended run go again: the failed, skipped and cancelled ones; or one task and all below it; or one instance
// of a fan-out and all below. Successes outside of that are kept. Shown to people as a plan before it happens.

import { instanceLane } from "./gate.ts"
import { gateLane, type RunScope, workLane } from "./lanes.ts"
import { type SkipKind, type TaskStatus, taskEnded, upstreamEnd } from "./status.ts"
import type { CompiledWorkflow } from "./workflow.ts"

export interface NodeState {
  node: number
  kind: "task" | "fan" | "group"
  status: TaskStatus
  skip: SkipKind | null
  /** Containers: instances made. */
  expanded: number
}

export interface ResetNode {
  node: number
  /** all: from the gate or the queue on. failed: a container keeps its successful instances. path: that instance alone. */
  scope: "all" | "failed" | { path: string }
  upstreamLeft: number
  upstream: { failed: number; unmet: number; waived: number }
  lane: string
  /** Lane of the instances that go again, for containers. */
  instanceLane: string
}

export interface RetryReset {
  nodes: ResetNode[]
  /** When the run ended that the plan was made for: retried and ended again since, it is another one. */
  endedAt?: string
}

export type RetryRequest = { from?: string; instance?: { task: string; path: string } }

export type RetryPlan = { reset: RetryReset; again: string[]; kept: string[] } | { problem: string }

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

export const planRetry = (
  workflow: CompiledWorkflow,
  run: RunScope & { finishedAt?: string | null },
  states: readonly NodeState[],
  request: RetryRequest,
): RetryPlan => {
  const stateOf = new Map(states.map((state) => [state.node, state]))
  const name = request.from ?? request.instance?.task
  const start = name === undefined ? null : workflow.nodes.findIndex((node) => node.name === name && node.hook === null)
  if (start === -1 || (start !== null && !stateOf.has(start))) return { problem: `the run has no task ${name}` }
  if (request.instance !== undefined && stateOf.get(start!)!.kind === "task") {
    return { problem: `task ${name} has no instances; retry from it instead` }
  }

  const again =
    start === null
      ? new Set(states.filter((s) => taskEnded(s.status) && s.status !== "success").map((s) => s.node))
      : below(workflow, start)
  if (again.size === 0) return { problem: "every task succeeded; name a task to retry from" }

  const nodes = [...again]
    .toSorted((a, b) => a - b)
    .map((index): ResetNode => {
      const node = workflow.nodes[index]!
      const state = stateOf.get(index)!
      const upstream = { failed: 0, unmet: 0, waived: 0 }
      let upstreamLeft = 0
      for (const up of node.upstream) {
        if (again.has(up)) upstreamLeft += 1
        else {
          const { status, skip } = stateOf.get(up)!
          const end = taskEnded(status) ? upstreamEnd(status, skip) : "success"
          if (end !== "success") upstream[end] += 1
        }
      }
      const alone = state.kind !== "task" && state.expanded > 0 && upstreamLeft === 0
      const scope =
        alone && index === start && request.instance !== undefined
          ? { path: request.instance.path }
          : alone && start === null
            ? "failed"
            : "all"
      const judged = node.gated || upstream.failed + upstream.unmet > 0
      return {
        node: index,
        scope,
        upstreamLeft,
        upstream,
        lane: judged ? gateLane(run) : workLane(run, node),
        instanceLane: instanceLane(run, node),
      }
    })
  const names = (keep: boolean): string[] =>
    states.filter((s) => again.has(s.node) !== keep).map((s) => workflow.nodes[s.node]!.name)
  const reset = { nodes, ...(typeof run.finishedAt === "string" && { endedAt: run.finishedAt }) }
  return { reset, again: names(false), kept: names(true) }
}
