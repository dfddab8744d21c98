// What a holder takes, and whether a task is among it: queues, and labels that it has. A task goes to those that have all of its
// labels. Kept with the holder, for `explain` and for lists of workers.

import { EVERY_QUEUE, handlerLane, queueLane } from "./lanes.ts"

export interface Serves {
  queues: "all" | readonly string[]
  labels: "all" | readonly string[]
  /** Queues whose jobs its handlers run. */
  handlers: readonly string[]
  capacity: number
  version: string
}

/** Subsets of them are lanes: 64 for each queue. */
export const MAX_LABELS = 6

export const canTake = (serves: Serves, task: { queue: string; labels: readonly string[] }): boolean =>
  (serves.queues === "all" || serves.queues.includes(task.queue)) &&
  task.labels.every((label) => serves.labels === "all" || serves.labels.includes(label))

/** The lanes that it claims from. */
export const lanesOf = ({ queues, labels, handlers }: Pick<Serves, "queues" | "labels" | "handlers">): string[] => {
  const sets = subsets(labels === "all" ? [] : labels)
  const work = queues === "all" ? [EVERY_QUEUE] : queues.flatMap((queue) => sets.map((set) => queueLane(queue, set)))
  return [...work, ...handlers.map(handlerLane)]
}

const subsets = (labels: readonly string[]): string[][] =>
  labels.reduce<string[][]>((sets, label) => [...sets, ...sets.map((set) => [...set, label])], [[]])
