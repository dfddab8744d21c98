// The objects that `wait` tasks wait for: each appears at a time of its own. Now and then a check fails, which must not end the wait.

import type { ConditionProbes } from "../../../src/engine/ports.ts"
import { Rng } from "../rng.ts"
import { appearanceOf } from "../scenario/waiting-tasks.ts"
import type { Simulation } from "../simulation.ts"

const FAILURE_RATE = 0.05

export const fakeConditions = (simulation: Simulation, processName: string): ConditionProbes => {
  const rng = new Rng("conditions", simulation.scenario.seed, processName)
  const unexpected = (): Promise<never> => Promise.reject(new Error("the simulation waits for objects only"))
  return {
    paths: async (address) => {
      if (!simulation.faultsOver && rng.chance(FAILURE_RATE)) throw new Error("the object store does not respond")
      return simulation.clock.elapsed >= appearanceOf(address) ? [address] : []
    },
    respond: unexpected,
    firstRow: unexpected,
    stop: async () => undefined,
  }
}
