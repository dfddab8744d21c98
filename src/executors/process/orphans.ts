// Kills processes that tasks have left. In a pid namespace there are none; without one, processes survive when Ork and its
// helper are killed together. Every process of a task has its owner and its attempt in its environment.

import { ownerAlive } from "../../objects/owner.ts"
import { liveProcesses, signalProcess } from "./process-table.ts"

/** Kills processes of tasks whose owner is dead. */
export const killOrphans = (): void => {
  for (const found of liveProcesses())
    if (found.owner !== null && ownerAlive(found.owner) === false) signalProcess(found, "SIGKILL")
}

/** Kills the processes of an attempt whose helper has died. Returns how many were alive. */
export const killAttempt = (attemptId: string): number => {
  const found = liveProcesses().filter((one) => one.attempt === attemptId)
  for (const one of found) signalProcess(one, "SIGKILL")
  return found.length
}
