// Whether a function has left processes behind. Nothing is looked for unless one was started.

import * as childProcess from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { createRequire, syncBuiltinESMExports } from "node:module"

let started = false

interface Starters {
  [name: string]: (...args: unknown[]) => unknown
}

/** Notes every start from now on. */
export const watchChildren = (): void => {
  noteCalls(childProcess.ChildProcess.prototype as unknown as Starters, ["spawn"])
  noteCalls(createRequire(import.meta.url)("node:child_process") as Starters, ["spawnSync", "execSync", "execFileSync"])
  syncBuiltinESMExports()
}

const noteCalls = (owner: Starters, names: string[]): void => {
  for (const name of names) {
    const start = owner[name]!
    owner[name] = function (this: unknown, ...args) {
      started = true
      return start.apply(this, args)
    }
  }
}

/** True: processes of this attempt are alive. They carry its id in their environment. */
export const leftBehind = (attemptId: string): boolean => {
  if (!started) return false
  started = false
  // Twice: one that forks and ends while we look would be missed together with its child.
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
