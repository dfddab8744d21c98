// Adds more workflows, lanes and bytes to a world than the internal bounds of the stores: 70 small workflows with a run each, in 70
// lanes, with keys of 5 KB. Uses random streams of its own, which leaves the rest of the seed as it is.

import { Rng } from "../rng.ts"
import type { RunSpec } from "./scenario.ts"
import { type SimWorkflow, smallWorkflow } from "./workflows.ts"

const WORKFLOWS = 70
const KEY_LENGTH = 5000
const MAX_TASKS = 4
const SPAN_MS = 3000

/** Returns the workflows, each in a queue of its own. */
export const manyWorkflows = (seed: number): SimWorkflow[] =>
  Array.from({ length: WORKFLOWS }, (_, i) => {
    const workflow = smallWorkflow(`many${i}`, seed, MAX_TASKS)
    for (const { node } of workflow.nodes) node.queue = `q${i}`
    return workflow
  })

/** Returns a run of each of the workflows from `first` on. */
export const manyRuns = (seed: number, first: number): RunSpec[] => {
  const rng = new Rng("many runs", seed)
  return Array.from({ length: WORKFLOWS }, (_, i) => ({
    label: `many${i}`,
    workflow: first + i,
    at: rng.int(0, SPAN_MS),
    params: { x: rng.int(0, 5), g: rng.pick(["a", "b"]).repeat(KEY_LENGTH) },
    priority: null,
    key: null,
    private: null,
  }))
}
