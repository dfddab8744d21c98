// Identity of a process, to find out whether the process of a lease holder is alive. On Linux it contains pid, start time and boot id,
// so that a new process with the same pid is not mistaken for it; elsewhere only the pid.

import { readFileSync } from "node:fs"

const BOOT = "/proc/sys/kernel/random/boot_id"

/** Returns the identity of a process, for `NewLeaseHolder.process`. */
export const processIdentity = (pid: number = process.pid): string => {
  const boot = readText(BOOT)
  const started = startTime(pid)
  return boot === null || started === null ? `${pid}` : `${pid}:${started}:${boot.trim()}`
}

/** Returns true only when the process is certainly dead. A malformed identity counts as alive. */
export const processIsDead = (identity: string): boolean => {
  const [number, started, boot] = identity.split(":")
  const pid = Number(number)
  if (!Number.isInteger(pid) || pid <= 0) return false
  if (started === undefined || boot === undefined) return !acceptsSignals(pid)
  const currentBoot = readText(BOOT)
  if (currentBoot === null) return !acceptsSignals(pid)
  return currentBoot.trim() !== boot || startTime(pid) !== started || isZombie(pid)
}

const acceptsSignals = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** Returns the fields of /proc/PID/stat after the name of the command, which may contain any character. */
const statFields = (pid: number): string[] | null => {
  const stat = readText(`/proc/${pid}/stat`)
  return stat === null ? null : stat.slice(stat.lastIndexOf(")") + 2).split(" ")
}

const STATE = 0
const START_TIME = 19

const startTime = (pid: number): string | null => statFields(pid)?.[START_TIME] ?? null
const isZombie = (pid: number): boolean => statFields(pid)?.[STATE] === "Z"

const readText = (path: string): string | null => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return null
  }
}
