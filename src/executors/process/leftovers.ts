// Processes of tasks whose Ork is dead. In a pid namespace there are none; without one, somebody may have killed Ork and its helper
// in one blow. Every process of a task names its owner in its environment, and a start ends those whose owner is gone.

import { ownerAlive } from "../../objects/owner.ts"
import { liveProcesses, signalProcess } from "./process-table.ts"

/** Kills processes whose environment says that their Ork is dead. */
export const killLeftovers = (): void => {
  for (const found of liveProcesses())
    if (found.owner !== null && ownerAlive(found.owner) === false) signalProcess(found, "SIGKILL")
}

/** Kills the processes of an attempt whose helper has died before it. Gives the number of those that were alive. */
export const killAttempt = (attemptId: string): number => {
  const found = liveProcesses().filter((one) => one.attempt === attemptId)
  for (const one of found) signalProcess(one, "SIGKILL")
  return found.length
}
