// Processes of tasks whose Ork is dead. In a pid namespace there are none; without one, somebody may have killed Ork and its helper
// in one blow. Every process of a task names its owner in its environment, and a start ends those whose owner is gone.

import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import { ATTEMPT_VARIABLE, OWNER_VARIABLE } from "./environment.ts"

/** Says which process this is, for good: namespace of its pid, pid, and the tick at which it started. */
export const currentOwner = (): string => {
  const start = startTick("self")
  return start === null ? `none-${process.pid}-0` : `${pidNamespace()}-${process.pid}-${start}`
}

/** null: it cannot be told from here, as it lives in another namespace. */
export const ownerAlive = (owner: string): boolean | null => {
  const [namespace, pid, tick] = owner.split("-")
  if (namespace === undefined || pid === undefined || !/^[0-9]+$/.test(pid) || namespace !== pidNamespace()) return null
  const now = startTick(pid)
  return now !== null && String(now) === tick
}

/** Kills processes whose environment says that their Ork is dead. Gives their number. */
export const killLeftovers = (): number => {
  let count = 0
  for (const { pid, owner } of taggedProcesses()) if (ownerAlive(owner) === false && killOnce(pid, owner)) count++
  return count
}

/** Kills every process of this owner's tasks; used when its helper has died. Gives the number of those found. */
export const killOwned = (owner: string): number => {
  let count = 0
  for (const found of taggedProcesses()) if (found.owner === owner && killOnce(found.pid, owner)) count++
  return count
}

/** Pids of one attempt's processes. */
export const attemptProcesses = (attemptId: string): number[] =>
  taggedProcesses().flatMap((found) => (found.attempt === attemptId ? [found.pid] : []))

export const isProcessOf = (pid: number, attemptId: string): boolean => variables(pid)?.get(ATTEMPT_VARIABLE) === attemptId

const killOnce = (pid: number, owner: string): boolean => {
  // Once more right before the signal: a pid may have been given to somebody else in the meantime.
  if (variables(pid)?.get(OWNER_VARIABLE) !== owner) return false
  try {
    process.kill(pid, "SIGKILL")
    return true
  } catch {
    return false
  }
}

interface Tagged {
  pid: number
  owner: string
  attempt: string
}

const taggedProcesses = (): Tagged[] =>
  processIds().flatMap((pid) => {
    const found = variables(pid)
    const owner = found?.get(OWNER_VARIABLE)
    return owner === undefined ? [] : [{ pid, owner, attempt: found?.get(ATTEMPT_VARIABLE) ?? "" }]
  })

const processIds = (): number[] => {
  try {
    return readdirSync("/proc").flatMap((name) => (/^[1-9][0-9]*$/.test(name) ? [Number(name)] : []))
  } catch {
    return []
  }
}

/** The variables that this file cares about; a dead or foreign process has none. */
const variables = (pid: number): Map<string, string> | null => {
  try {
    const text = readFileSync(`/proc/${pid}/environ`, "latin1")
    if (!text.includes(`${OWNER_VARIABLE}=`)) return null
    return new Map(
      text.split("\0").flatMap((entry) => {
        const at = entry.indexOf("=")
        return at > 0 ? [[entry.slice(0, at), entry.slice(at + 1)] as const] : []
      }),
    )
  } catch {
    return null
  }
}

const startTick = (pid: string): number | null => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1")
    // The name in parentheses may hold anything; after it, the state is field 3 and the start tick field 22.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ")
    return fields[0] === "Z" ? null : Number(fields[19])
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
