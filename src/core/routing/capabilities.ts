// Capabilities of a lease holder: the queues, labels and registered functions that it accepts. A holder accepts a task when it has all
// labels of the task and the function that the task calls. Stored with the holder, for `explain` and for lists of workers.

import { FUNCTION_EXECUTOR } from "../model/function.ts"
import { handlerLane, QUEUE_WILDCARD, queueLane, restrictedLane, restrictedWildcard } from "./lanes.ts"
import type { Node } from "../model/workflow.ts"

export interface WorkerCapabilities {
  queues: "all" | readonly string[]
  labels: readonly string[]
  /** Queues for whose jobs it has handlers. */
  handlers: readonly string[]
  /** Names of its registered functions. */
  functions?: readonly string[]
  /** It runs only its functions and handlers, no other tasks. */
  functionsOnly?: boolean
  capacity: number
  version: string
}

/** A worker claims from one lane for each subset of its labels: at most 64 for each queue. */
export const MAX_LABELS = 6
/** Maximum number of lanes of function calls of a worker; a claim reads each of them. */
const MAX_WORKER_LANES = 4096

/** Returns why the capabilities are too many for one worker, or null. */
export const capabilitiesProblem = ({
  queues,
  labels,
  functions = [],
}: Pick<WorkerCapabilities, "queues" | "labels" | "functions">): string | null => {
  const queueCount = queues === "all" ? 1 : queues.length
  const lanes = functions.length * queueCount * 2 ** labels.length
  if (lanes <= MAX_WORKER_LANES) return null
  const count = `${functions.length} functions in ${queues === "all" ? "all" : queues.length} queues with ${labels.length} labels`
  return `${count} are too many for one worker: give it fewer labels or queues, or divide the functions among several workers`
}

export const accepts = (
  capabilities: Pick<WorkerCapabilities, "queues" | "labels" | "functions" | "functionsOnly">,
  task: Pick<Node, "queue" | "labels"> & Partial<Node>,
): boolean =>
  (capabilities.queues === "all" || capabilities.queues.includes(task.queue)) &&
  task.labels.every((label) => capabilities.labels.includes(label)) &&
  (task.executor === FUNCTION_EXECUTOR ? hasFunction(capabilities, task.function) : capabilities.functionsOnly !== true)

export const hasFunction = ({ functions = [] }: Pick<WorkerCapabilities, "functions">, name: string | undefined): boolean =>
  name !== undefined && functions.includes(name)

/** Returns the lanes that a holder claims from. */
export const lanesOf = (capabilities: Omit<WorkerCapabilities, "capacity" | "version">): string[] => {
  const { queues, labels, handlers, functions = [] } = capabilities
  const labelSets = subsets(labels)
  const lanes = (name: string): string[] =>
    queues === "all"
      ? labelSets.map((set) => (name === "" && set.length === 0 ? QUEUE_WILDCARD : restrictedWildcard(name, set)))
      : queues.flatMap((queue) =>
          labelSets.map((set) => (name === "" ? queueLane(queue, set) : restrictedLane(queue, name, set))),
        )
  const work = lanes("")
  const calls = functions.flatMap(lanes)
  return [...(capabilities.functionsOnly === true ? [] : work), ...calls, ...handlers.map(handlerLane)]
}

const subsets = (labels: readonly string[]): string[][] =>
  labels.reduce<string[][]>((sets, label) => [...sets, ...sets.map((set) => [...set, label])], [[]])
