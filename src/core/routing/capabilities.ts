// What a holder takes, and whether a task is among it: queues, labels and registered functions that it has. A task goes to those that
// have all of its labels, and the function that it calls. Kept with the holder, for `explain` and for lists of workers.

import { FUNCTION_EXECUTOR } from "../model/function.ts"
import { QUEUE_WILDCARD, functionWildcard, functionLane, handlerLane, queueLane } from "./lanes.ts"
import type { Node } from "../model/workflow.ts"

export interface WorkerCapabilities {
  queues: "all" | readonly string[]
  labels: "all" | readonly string[]
  /** Queues whose jobs its handlers run. */
  handlers: readonly string[]
  /** Names of the functions that it has registered. */
  functions?: readonly string[]
  /** It runs these and its handlers, and no other tasks. */
  functionsOnly?: boolean
  capacity: number
  version: string
}

/** Subsets of them are lanes: 64 for each queue. */
export const MAX_LABELS = 6
/** So are these, times functions: a claim looks into each of them. */
const MAX_WORKER_LANES = 4096

/** What is wrong with it, or null. */
export const capabilitiesProblem = ({
  queues,
  labels,
  functions = [],
}: Pick<WorkerCapabilities, "queues" | "labels" | "functions">): string | null => {
  if (queues === "all" || labels === "all") return null
  const lanes = functions.length * queues.length * 2 ** labels.length
  if (lanes <= MAX_WORKER_LANES) return null
  const what = `${functions.length} functions in ${queues.length} queues with ${labels.length} labels`
  return `${what} are too much for one worker: give it fewer labels or queues, or divide the functions`
}

export const accepts = (
  serves: Pick<WorkerCapabilities, "queues" | "labels" | "functions" | "functionsOnly">,
  task: Pick<Node, "queue" | "labels"> & Partial<Node>,
): boolean =>
  (serves.queues === "all" || serves.queues.includes(task.queue)) &&
  task.labels.every((label) => serves.labels === "all" || serves.labels.includes(label)) &&
  (task.executor === FUNCTION_EXECUTOR ? hasFunction(serves, task.function) : serves.functionsOnly !== true)

export const hasFunction = ({ functions = [] }: Pick<WorkerCapabilities, "functions">, name: string | undefined): boolean =>
  name !== undefined && functions.includes(name)

/** The lanes that it claims from. */
export const lanesOf = (serves: Omit<WorkerCapabilities, "capacity" | "version">): string[] => {
  const { queues, labels, handlers, functions = [] } = serves
  const sets = subsets(labels === "all" ? [] : labels)
  const each = (lane: (queue: string, set: string[]) => string): string[] =>
    queues === "all" ? [] : queues.flatMap((queue) => sets.map((set) => lane(queue, set)))
  const work = queues === "all" ? [QUEUE_WILDCARD] : each(queueLane)
  const calls = functions.flatMap((name) =>
    queues === "all" ? [functionWildcard(name)] : each((queue, set) => functionLane(queue, name, set)),
  )
  return [...(serves.functionsOnly === true ? [] : work), ...calls, ...handlers.map(handlerLane)]
}

const subsets = (labels: readonly string[]): string[][] =>
  labels.reduce<string[][]>((sets, label) => [...sets, ...sets.map((set) => [...set, label])], [[]])
