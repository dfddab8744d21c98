// Lanes: where rows wait to be claimed. A claim names lanes, so it never reads what it cannot take.
//   g              rows of shared runs that the gate must judge
//   q:QUEUE|l1,l2  work of shared runs and jobs, by queue and sorted labels
//   h:QUEUE        jobs that a handler of their queue runs
//   s              work that lives elsewhere (`REMOTE_EXECUTORS`), which only servers take, whatever its queue
//   p:RUN:g p:RUN:w p:RUN:s  the same of a private run (`ork run`), which takes its work whatever its queue

import { type Node, REMOTE_EXECUTORS } from "./workflow.ts"

export interface RunScope {
  id: string
  private: boolean
  /** The run whose lanes a private sub-workflow uses; null: its own. */
  scope?: string | null
}

export const gateLane = (run: RunScope): string => (run.private ? `p:${run.scope ?? run.id}:g` : "g")

export const workLane = (run: RunScope, node: Pick<Node, "queue" | "labels" | "executor">): string =>
  REMOTE_EXECUTORS.includes(node.executor) ? remoteLane(run) : localLane(run, node)

/** Work that runs on the machine of who takes it. */
export const localLane = (run: RunScope, node: Pick<Node, "queue" | "labels">): string =>
  run.private ? `p:${run.scope ?? run.id}:w` : queueLane(node.queue, node.labels)

export const remoteLane = (run: RunScope): string => (run.private ? `p:${run.scope ?? run.id}:s` : "s")

export const queueLane = (queue: string, labels: readonly string[]): string =>
  labels.length === 0 ? `q:${queue}` : `q:${queue}|${[...labels].sort().join(",")}`

/** In a claim: every lane of shared work, queues in turn. */
export const EVERY_QUEUE = "q:*"

export const handlerLane = (queue: string): string => `h:${queue}`

/** The queue that a lane's work belongs to; null for the gate's lanes and those of private runs. */
export const queueOf = (lane: string): string | null => {
  if (!lane.startsWith("q:") && !lane.startsWith("h:")) return null
  const bar = lane.indexOf("|")
  return bar === -1 ? lane.slice(2) : lane.slice(2, bar)
}

/** The limit that counts what of a queue runs at once. */
export const queueLimit = (queue: string): string => `q:${queue}`
