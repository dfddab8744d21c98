// Detects processes that a function has left running. The process table is only read if a process was started.

import * as childProcess from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { createRequire, syncBuiltinESMExports } from "node:module"

let started = false

interface Functions {
  [name: string]: (...args: unknown[]) => unknown
}

/** Records from now on that a process is started, by wrapping the functions of node:child_process. */
export const trackChildProcesses = (): void => {
  trackCalls(childProcess.ChildProcess.prototype as unknown as Functions, ["spawn"])
  trackCalls(createRequire(import.meta.url)("node:child_process") as Functions, ["spawnSync", "execSync", "execFileSync"])
  syncBuiltinESMExports()
}

const trackCalls = (owner: Functions, names: string[]): void => {
  for (const name of names) {
    const start = owner[name]!
    owner[name] = function (this: unknown, ...args) {
      started = true
      return start.apply(this, args)
    }
  }
}

/** Returns true when processes with this attempt id in their environment are alive. */
export const hasLeftProcesses = (attemptId: string): boolean => {
  if (!started) return false
  started = false
  // Checks twice, because a process that forks and exits during the first check may be missed together with its child.
  return anyAlive(attemptId) || anyAlive(attemptId)
}

const anyAlive = (attemptId: string): boolean => {
  try {
    return readdirSync("/proc").some((name) => /^[1-9]\d*$/.test(name) && isAlive(name, attemptId))
  } catch {
    return true
  }
}

const isAlive = (pid: string, attemptId: string): boolean => {
  try {
    if (!`\0${readFileSync(`/proc/${pid}/environ`, "latin1")}`.includes(`\0ORK_ATTEMPT_ID=${attemptId}\0`)) return false
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2))
  } catch {
    return false
  }
}
