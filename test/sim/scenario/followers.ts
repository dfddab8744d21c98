// Adds a workflow to some worlds that starts after successes of others. Uses a random stream of its own, which leaves the rest of the seed
// as it is.

import type { AfterTrigger } from "../../../src/core/model/workflow.ts"
import { Rng } from "../rng.ts"
import { PARAMS } from "./waiting-tasks.ts"
import { type SimWorkflow, smallWorkflow } from "./workflows.ts"

const SHARE = 0.25
const MAX_TASKS = 3

export const makeFollowers = (seed: number, workflows: readonly SimWorkflow[]): SimWorkflow[] => {
  const rng = new Rng("followers", seed)
  if (!rng.chance(SHARE)) return []
  const names = workflows.map(({ compiled }) => compiled.name)
  const trigger: AfterTrigger = {
    after: names.slice(0, rng.int(1, Math.min(2, names.length))),
    when: rng.pick(["any", "all"]),
    params: { map: { x: { lit: rng.int(0, 5) }, g: { lit: "b" } } },
  }
  const workflow = smallWorkflow("follower", seed, MAX_TASKS)
  Object.assign(workflow.compiled, { params: PARAMS, triggers: [trigger] })
  return [workflow]
}
