// Reads the processes of this machine from /proc, with the owner and attempt of those that belong to tasks. Empty where there
// is no /proc.

import { readdirSync, readFileSync } from "node:fs"
import { ATTEMPT_VARIABLE } from "../environment.ts"
import { OWNER_VARIABLE } from "./environment.ts"

export interface TaskProcess {
  pid: number
  session: number
  /** Clock tick of its start, which identifies it together with the pid. */
  startTick: number
  /** From its environment; null for processes that are not tasks. */
  owner: string | null
  attempt: string | null
}

/** Returns all running processes, without zombies. */
export const liveProcesses = (): TaskProcess[] => {
  let names: string[]
  try {
    names = readdirSync("/proc")
  } catch {
    return []
  }
  return names.flatMap((name) => {
    const found = /^[1-9][0-9]*$/.test(name) ? findProcess(Number(name)) : null
    return found === null ? [] : [found]
  })
}

const findProcess = (pid: number | "self"): TaskProcess | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    // The name in parentheses may contain anything. After it come state, parent, group and session; the start is field 22.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    if (fields[0] === "Z" || fields[0] === "X") return null
    const environment = readEnvironment(pid)
    return {
      pid: Number.parseInt(stat, 10),
      session: Number(fields[3]),
      startTick: Number(fields[19]),
      owner: variable(environment, OWNER_VARIABLE),
      attempt: variable(environment, ATTEMPT_VARIABLE),
    }
  } catch {
    return null
  }
}

/** Signals a process unless its pid belongs to another one by now. */
export const signalProcess = (found: TaskProcess, signal: NodeJS.Signals | number): boolean => {
  if (findProcess(found.pid)?.startTick !== found.startTick) return false
  try {
    process.kill(found.pid, signal)
    return true
  } catch {
    return false
  }
}

/** Returns an empty string for a process of another user. */
const readEnvironment = (pid: number | "self"): string => {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1")
  } catch {
    return ""
  }
}

const variable = (environment: string, name: string): string | null => {
  const start = environment.startsWith(`${name}=`) ? 0 : environment.indexOf(`\0${name}=`) + 1
  if (start === 0 && !environment.startsWith(`${name}=`)) return null
  const end = environment.indexOf("\0", start)
  return environment.slice(start + name.length + 1, end < 0 ? undefined : end)
}
