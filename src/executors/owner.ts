// Which Ork process started a task: written on all that could outlive it, so that the next one knows what nobody looks after.

import { readlinkSync } from "node:fs"
import { findProcess } from "./process/process-table.ts"

/** Says which process this is, for good: namespace of its pid, pid, and the tick at which it started. */
export const currentOwner = (): string => `${pidNamespace()}-${process.pid}-${findProcess("self")?.startTick ?? 0}`

/** null: it cannot be told from here, as it lives in another namespace. */
export const ownerAlive = (owner: string): boolean | null => {
  const match = /^(\d+)-(\d+)-(\d+)$/.exec(owner)
  if (match === null || match[1] !== pidNamespace()) return null
  return findProcess(Number(match[2]))?.startTick === Number(match[3])
}

const pidNamespace = (): string => {
  try {
    return /\[(\d+)\]/.exec(readlinkSync("/proc/self/ns/pid"))?.[1] ?? "none"
  } catch {
    return "none"
  }
}
