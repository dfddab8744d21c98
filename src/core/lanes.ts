// Lanes: where rows wait to be claimed. A claim names lanes, so it never reads what it cannot take.
//   g              rows of shared runs that the gate must judge
//   q:QUEUE|l1,l2  work of shared runs, by queue and sorted labels
//   p:RUN:g p:RUN:w  the same two of a private run (`ork run`), which takes its work whatever its queue

import type { Node } from "./workflow.ts"

export interface RunScope {
  id: string
  private: boolean
}

export const gateLane = (run: RunScope): string => (run.private ? `p:${run.id}:g` : "g")

export const workLane = (run: RunScope, node: Pick<Node, "queue" | "labels">): string =>
  run.private ? `p:${run.id}:w` : queueLane(node.queue, node.labels)

export const queueLane = (queue: string, labels: readonly string[]): string =>
  labels.length === 0 ? `q:${queue}` : `q:${queue}|${[...labels].sort().join(",")}`
