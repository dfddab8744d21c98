// Identifies the Ork process that created a resource which may outlive it, so that another process can remove it.

import { readFileSync, readlinkSync } from "node:fs"

/** Returns a unique identity of this process: pid namespace, pid, and the clock tick of its start. */
export const currentOwner = (): string => `${pidNamespace()}-${process.pid}-${startTick("self") ?? 0}`

/** Returns null if the process is in another pid namespace, so that its state is unknown. */
export const ownerAlive = (owner: string): boolean | null => {
  const match = /^(\d+)-(\d+)-(\d+)$/.exec(owner)
  if (match === null || match[1] !== pidNamespace()) return null
  return startTick(Number(match[2])) === Number(match[3])
}

/** Returns null if there is no such process, or it is a zombie. */
const startTick = (pid: number | "self"): number | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    // The name in parentheses may contain anything. The state follows it; the start tick is field 22.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    return fields[0] === "Z" || fields[0] === "X" ? null : Number(fields[19])
  } catch {
    return null
  }
}

const pidNamespace = (): string => {
  try {
    return /\[(\d+)\]/.exec(readlinkSync("/proc/self/ns/pid"))?.[1] ?? "none"
  } catch {
    return "none"
  }
}
