// The processes of this machine as far as they are tasks of an Ork, read from /proc. Empty where there is no /proc.

import { readdirSync, readFileSync } from "node:fs"
import { ATTEMPT_VARIABLE } from "../environment.ts"
import { OWNER_VARIABLE } from "./environment.ts"

export interface FoundProcess {
  pid: number
  session: number
  /** Clock tick of its start: with the pid, its identity. */
  startTick: number
  /** From its environment; null: it has none of ours. */
  owner: string | null
  attempt: string | null
}

/** Every live process (zombies are dead). */
export const liveProcesses = (): FoundProcess[] => {
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

const findProcess = (pid: number | "self"): FoundProcess | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    // The name in parentheses may hold anything. After it: state, parent, group, session; the start is field 22.
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

/** Signals a process if it still is the one that was found. */
export const signalProcess = (found: FoundProcess, signal: NodeJS.Signals | number): boolean => {
  if (findProcess(found.pid)?.startTick !== found.startTick) return false
  try {
    process.kill(found.pid, signal)
    return true
  } catch {
    return false
  }
}

/** Empty for a process of somebody else. */
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
