import type { EngineOptions } from "../ports.ts"
import type { AbandonedRun } from "../../store/contract/store.ts"
import { gateLane, type RunLaneKey, localLane, REMOTE_WILDCARD, remoteLane } from "../../core/routing/lanes.ts"

/** The lanes that an engine claims from. */
export interface Lanes {
  /** Work for this machine. */
  local: string[]
  /** Work that runs elsewhere; empty without an executor for it. */
  remote: string[]
  gate: string[]
}

const privateRunOf = (id: string): RunLaneKey => ({ id, private: true })

export const lanesOf = ({ privateRun, lanes, executors }: EngineOptions): Lanes => {
  const run = { id: privateRun ?? "", private: privateRun !== null }
  const local = privateRun === null ? lanes : [localLane(run, { queue: "", labels: [] })]
  const remote = privateRun === null ? REMOTE_WILDCARD : remoteLane(run, { queue: "" })
  const hasRemote = [...executors.values()].some((executor) => executor.remote === true)
  return { local, remote: hasRemote ? [remote] : [], gate: [gateLane(run)] }
}

/** Adds the lanes in which rows of dead `ork run` processes wait for a server: for the gate, and hooks of closed runs. */
export const withAbandoned = ({ local, remote, gate }: Lanes, runs: readonly AbandonedRun[]): Lanes => {
  const closed = runs.filter((run) => run.closed).map(({ runId }) => privateRunOf(runId))
  return {
    local: [...local, ...closed.map((run) => localLane(run, { queue: "", labels: [] }))],
    remote: remote.length === 0 ? [] : [...remote, ...closed.map((run) => remoteLane(run, { queue: "" }))],
    gate: [...gate, ...runs.map(({ runId }) => gateLane(privateRunOf(runId)))],
  }
}
