// Processes of tasks whose Ork is dead. In a pid namespace there are none; without one, somebody may have killed Ork and its helper
// in one blow. Every process of a task names its owner in its environment, and a start ends those whose owner is gone.

import { readlinkSync } from "node:fs"
import { findProcess, liveProcesses, signalProcess } from "./process-table.ts"

/** Says which process this is, for good: namespace of its pid, pid, and the tick at which it started. */
export const currentOwner = (): string => `${pidNamespace()}-${process.pid}-${findProcess("self")?.startTick ?? 0}`

/** null: it cannot be told from here, as it lives in another namespace. */
export const ownerAlive = (owner: string): boolean | null => {
  const match = /^(\d+)-(\d+)-(\d+)$/.exec(owner)
  if (match === null || match[1] !== pidNamespace()) return null
  return findProcess(Number(match[2]))?.startTick === Number(match[3])
}

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

const pidNamespace = (): string => {
  try {
    return /\[(\d+)\]/.exec(readlinkSync("/proc/self/ns/pid"))?.[1] ?? "none"
  } catch {
    return "none"
  }
}
