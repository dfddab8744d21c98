// Lanes: where rows wait to be claimed. A claim names lanes, so it never reads what it cannot take.
//   g              rows of shared runs that the gate must judge
//   q:QUEUE|l1,l2  work of shared runs and jobs, by queue and sorted labels
//   h:QUEUE        jobs that a handler of their queue runs
//   f:QUEUE|NAME|l1,l2  calls of registered functions, which only those take that have the function
//   s:QUEUE        work that lives elsewhere (`REMOTE_EXECUTORS`), which only servers take, whatever its labels
//   p:RUN:g p:RUN:w p:RUN:s  the same of a private run (`ork run`), which takes its work whatever its queue

import { FUNCTION_EXECUTOR } from "../model/function.ts"
import { type Node, REMOTE_EXECUTORS } from "../model/workflow.ts"

export interface RunLaneKey {
  id: string
  private: boolean
  /** The run whose lanes a private sub-workflow uses; null: its own. */
  rootRunId?: string | null
}

export const gateLane = (run: RunLaneKey): string => (run.private ? `p:${run.rootRunId ?? run.id}:g` : "g")

export const workLane = (run: RunLaneKey, node: Pick<Node, "queue" | "labels" | "executor" | "function">): string =>
  REMOTE_EXECUTORS.includes(node.executor) ? remoteLane(run, node) : localLane(run, node)

/** Work that runs on the machine of who takes it. */
export const localLane = (run: RunLaneKey, node: Pick<Node, "queue" | "labels"> & Partial<Node>): string => {
  if (run.private) return `p:${run.rootRunId ?? run.id}:w`
  return node.executor === FUNCTION_EXECUTOR
    ? functionLane(node.queue, node.function ?? "", node.labels)
    : queueLane(node.queue, node.labels)
}

export const remoteLane = (run: RunLaneKey, node: Pick<Node, "queue">): string =>
  run.private ? `p:${run.rootRunId ?? run.id}:s` : `s:${node.queue}`

export const queueLane = (queue: string, labels: readonly string[]): string =>
  labels.length === 0 ? `q:${queue}` : `q:${queue}|${[...labels].sort().join(",")}`

/** In a claim: every lane of shared work, queues in turn. */
export const QUEUE_WILDCARD = "q:*"
/** The same of work that lives elsewhere. */
export const REMOTE_WILDCARD = "s:*"

/** Lanes between two names. */
export interface LaneRange {
  name: "queues" | "remote" | "both"
  from: string
  to: string
}

const QUEUES: LaneRange = { name: "queues", from: "q:", to: "q;" }
const REMOTE: LaneRange = { name: "remote", from: "s:", to: "s;" }
/** No lane lies between the two kinds. */
const BOTH: LaneRange = { name: "both", from: QUEUES.from, to: REMOTE.to }
export const LANE_RANGES = [QUEUES, REMOTE, BOTH] as const

/** What a claim wants of these lanes without naming them; null: nothing. */
export const wildcardRange = (lanes: readonly string[]): LaneRange | null => {
  const queues = lanes.includes(QUEUE_WILDCARD)
  if (!lanes.includes(REMOTE_WILDCARD)) return queues ? QUEUES : null
  return queues ? BOTH : REMOTE
}

export const isExactLane = (lane: string): boolean =>
  lane !== QUEUE_WILDCARD && lane !== REMOTE_WILDCARD && !lane.startsWith(FUNCTION_WILDCARD_PREFIX)

export const functionLane = (queue: string, name: string, labels: readonly string[]): string =>
  `f:${queue}|${name}${labels.length === 0 ? "" : `|${[...labels].sort().join(",")}`}`

/** In a claim: every lane of calls of this function. */
export const functionWildcard = (name: string): string => `${FUNCTION_WILDCARD_PREFIX}${name}`

const FUNCTION_WILDCARD_PREFIX = "f:*|"
/** Around the lanes of calls. */
export const FUNCTION_LANES = { from: "f:", to: "f;" } as const

/** The functions whose calls a claim wants without naming lanes. */
export const wildcardFunctions = (lanes: readonly string[]): string[] =>
  lanes.flatMap((lane) => (lane.startsWith(FUNCTION_WILDCARD_PREFIX) ? [lane.slice(FUNCTION_WILDCARD_PREFIX.length)] : []))

/** The function that a lane of calls is for. */
export const functionOfLane = (lane: string): string => lane.split("|")[1] ?? ""

export const handlerLane = (queue: string): string => `h:${queue}`

const QUEUE_LANE = /^[qhsf]:/

/** The queue that a lane's work belongs to; null for the gate's lanes and those of private runs. */
export const queueOfLane = (lane: string): string | null => {
  if (!QUEUE_LANE.test(lane)) return null
  const bar = lane.indexOf("|")
  return bar === -1 ? lane.slice(2) : lane.slice(2, bar)
}

/** The limit that counts what of a queue runs at once. */
export const queueLimitKey = (queue: string): string => `q:${queue}`
