// Lanes: the part of the ready queue that a row waits in. A claim lists lanes, so it never reads rows that it cannot run. The letters stand
// for gate, queue, handler, function (or labels), servers, private and work. Limits and `completed_seconds.list` have a `q:` of their own
// (limit-keys.ts, docs/tables.md).
//   g                        rows of shared runs that the gate must evaluate
//   q:QUEUE                  work of shared runs and jobs that every holder of the queue can run
//   h:QUEUE                  jobs that a handler of their queue runs
//   f:QUEUE|NAME|l1,l2       restricted work, for holders that have the registered function and the sorted labels; either may be missing
//   s:QUEUE                  work of remote executors (`REMOTE_EXECUTORS`), which only servers claim, whatever its labels
//   p:RUN:g p:RUN:w p:RUN:s  gate, local and remote work of a private run (`ork run`), whatever its queue
// A claim may also list wildcards: `q:*` (every `q:` lane), `s:*` (every `s:` lane), `f:*|NAME|l1,l2` (every queue's lane with exactly
// that requirement).

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

/** Returns the lane of work that runs on the machine of its lease holder. */
export const localLane = (run: RunLaneKey, node: Pick<Node, "queue" | "labels"> & Partial<Node>): string => {
  if (run.private) return `p:${run.rootRunId ?? run.id}:w`
  return node.executor === FUNCTION_EXECUTOR
    ? restrictedLane(node.queue, node.function ?? "", node.labels)
    : queueLane(node.queue, node.labels)
}

export const remoteLane = (run: RunLaneKey, node: Pick<Node, "queue">): string =>
  run.private ? `p:${run.rootRunId ?? run.id}:s` : `s:${node.queue}`

export const queueLane = (queue: string, labels: readonly string[]): string =>
  labels.length === 0 ? `q:${queue}` : restrictedLane(queue, "", labels)

/** Returns the lane of restricted work. `name`: the registered function; empty: none. */
export const restrictedLane = (queue: string, name: string, labels: readonly string[]): string =>
  `f:${queue}|${requirement(name, labels)}`

const requirement = (name: string, labels: readonly string[]): string =>
  labels.length === 0 ? name : `${name}|${[...labels].sort().join(",")}`

export const handlerLane = (queue: string): string => `h:${queue}`

// -- wildcards in claims -----------------------------------------------------------------------------------------------------------

export const QUEUE_WILDCARD = "q:*"
export const REMOTE_WILDCARD = "s:*"
const RESTRICTED_WILDCARD_PREFIX = "f:*|"

export const restrictedWildcard = (name: string, labels: readonly string[]): string =>
  `${RESTRICTED_WILDCARD_PREFIX}${requirement(name, labels)}`

/** Returns true for a lane that is not a wildcard. */
export const isExactLane = (lane: string): boolean =>
  lane !== QUEUE_WILDCARD && lane !== REMOTE_WILDCARD && !lane.startsWith(RESTRICTED_WILDCARD_PREFIX)

export const hasWildcard = (lanes: readonly string[]): boolean => !lanes.every(isExactLane)

/** Lanes from `from` (inclusive) to `to` (exclusive) in byte order. */
interface LaneRange {
  from: string
  to: string
}

const QUEUES: LaneRange = { from: "q:", to: "q;" }
const REMOTE: LaneRange = { from: "s:", to: "s;" }
/** No other kind of lane sorts between the two. */
const BOTH: LaneRange = { from: QUEUES.from, to: REMOTE.to }

/** Range of all lanes of restricted work. */
export const RESTRICTED_LANES = { from: "f:", to: "f;" } as const

/** Ranges of the lanes of all queues. They contain no lane of a private run or of the gate. */
export const LANES_OF_QUEUES: readonly LaneRange[] = [BOTH, { from: "h:", to: "h;" }, RESTRICTED_LANES]

/** Returns the lanes of one queue, and the prefix of its lanes of restricted work. */
export const lanesOfQueue = (queue: string): { lanes: string[]; prefixes: string[] } => ({
  lanes: [`q:${queue}`, `h:${queue}`, `s:${queue}`],
  prefixes: [`f:${queue}|`],
})

export const isRestrictedLane = (lane: string): boolean => lane.startsWith(RESTRICTED_LANES.from)

/** Returns the range that the queue and remote wildcards of a claim cover; null without them. */
export const wildcardRange = (lanes: readonly string[]): LaneRange | null => {
  const queues = lanes.includes(QUEUE_WILDCARD)
  if (!lanes.includes(REMOTE_WILDCARD)) return queues ? QUEUES : null
  return queues ? BOTH : REMOTE
}

/** Returns the requirements that a claim lists as wildcards. */
export const wildcardRequirements = (lanes: readonly string[]): string[] =>
  lanes.flatMap((lane) => (lane.startsWith(RESTRICTED_WILDCARD_PREFIX) ? [lane.slice(RESTRICTED_WILDCARD_PREFIX.length)] : []))

// -- reading lanes -----------------------------------------------------------------------------------------------------------------

/** Returns the function and the labels of a lane of restricted work. */
export const requirementOfLane = (lane: string): string => lane.slice(lane.indexOf("|") + 1)

const QUEUE_LANE = /^[qhsf]:/

/** Returns the queue of a lane; null for lanes of the gate and of private runs. */
export const queueOfLane = (lane: string): string | null => {
  if (!QUEUE_LANE.test(lane)) return null
  const bar = lane.indexOf("|")
  return bar === -1 ? lane.slice(2) : lane.slice(2, bar)
}
