// The lanes that an engine takes from.

import type { EngineOptions } from "../ports.ts"
import { REMOTE_WILDCARD, gateLane, localLane, remoteLane } from "../../core/routing/lanes.ts"

export interface Lanes {
  work: string[]
  /** Work that lives elsewhere; empty where no executor for it is at hand. */
  remote: string[]
  gate: string[]
}

export const lanesOf = ({ privateRun, lanes, executors }: EngineOptions): Lanes => {
  const run = { id: privateRun ?? "", private: privateRun !== null }
  const work = privateRun === null ? lanes : [localLane(run, { queue: "", labels: [] })]
  const elsewhere = privateRun === null ? REMOTE_WILDCARD : remoteLane(run, { queue: "" })
  const remote = [...executors.values()].some((executor) => executor.remote === true)
  return { work, remote: remote ? [elsewhere] : [], gate: [gateLane(run)] }
}
