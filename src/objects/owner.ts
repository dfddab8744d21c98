// Which Ork process made a thing: written on all that could outlive it, so that the next one knows what nobody looks after.

import { readFileSync, readlinkSync } from "node:fs"

/** Says which process this is, for good: namespace of its pid, pid, and the tick at which it started. */
export const currentOwner = (): string => `${pidNamespace()}-${process.pid}-${startTick("self") ?? 0}`

/** null: it cannot be told from here, as it lives in another namespace. */
export const ownerAlive = (owner: string): boolean | null => {
  const match = /^(\d+)-(\d+)-(\d+)$/.exec(owner)
  if (match === null || match[1] !== pidNamespace()) return null
  return startTick(Number(match[2])) === Number(match[3])
}

/** null: there is no such process, or it is a zombie. */
const startTick = (pid: number | "self"): number | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    // The name in parentheses may hold anything. After it comes the state; the start is field 22.
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
