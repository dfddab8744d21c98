import type { EngineOptions } from "../ports.ts"
import { gateLane, localLane, REMOTE_WILDCARD, remoteLane } from "../../core/routing/lanes.ts"

/** The lanes that an engine claims from. */
export interface Lanes {
  /** Work for this machine. */
  local: string[]
  /** Work that runs elsewhere; empty without an executor for it. */
  remote: string[]
  gate: string[]
}

export const lanesOf = ({ privateRun, lanes, executors }: EngineOptions): Lanes => {
  const run = { id: privateRun ?? "", private: privateRun !== null }
  const local = privateRun === null ? lanes : [localLane(run, { queue: "", labels: [] })]
  const remote = privateRun === null ? REMOTE_WILDCARD : remoteLane(run, { queue: "" })
  const hasRemote = [...executors.values()].some((executor) => executor.remote === true)
  return { local, remote: hasRemote ? [remote] : [], gate: [gateLane(run)] }
}
