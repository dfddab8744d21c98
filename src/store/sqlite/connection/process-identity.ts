// Tells whether the process of a holder still lives, without mistaking a new process with the same number for it: on Linux by
// pid, start time and boot; elsewhere by pid alone.

import { readFileSync } from "node:fs"

const BOOT = "/proc/sys/kernel/random/boot_id"

/** Of this process; goes into `NewHolder.process`. */
export const processIdentity = (pid: number = process.pid): string => {
  const boot = readText(BOOT)
  const started = startTime(pid)
  return boot === null || started === null ? `${pid}` : `${pid}:${started}:${boot.trim()}`
}

/** True only when it is sure: an identity that cannot be read is taken for alive. */
export const processIsDead = (identity: string): boolean => {
  const [number, started, boot] = identity.split(":")
  const pid = Number(number)
  if (!Number.isInteger(pid) || pid <= 0) return false
  if (started === undefined || boot === undefined) return !signals(pid)
  const here = readText(BOOT)
  if (here === null) return !signals(pid)
  return here.trim() !== boot || startTime(pid) !== started || isZombie(pid)
}

const signals = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** Fields of /proc/PID/stat after the command's name, which may hold anything. */
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
