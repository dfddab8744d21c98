// Messages about containers that ended or could not be started, for every executor that runs containers.

import { formatBytes } from "../core/values/quantities.ts"
import { signalName } from "./messages.ts"

const SIGNAL_BASE = 128
const MAX_SIGNAL = 64
/** Exit codes of shells and of a container's init when a program could not be run. */
const NOT_RUN: Readonly<Record<number, string>> = { 126: " (a command is not executable)", 127: " (a command was not found)" }

export const describeExitCode = (code: number): string => {
  const signalled = code > SIGNAL_BASE && code <= SIGNAL_BASE + MAX_SIGNAL
  return `exit code ${code}${NOT_RUN[code] ?? (signalled ? ` (${signalName(code - SIGNAL_BASE)})` : "")}`
}

/** Explains the end of a container without memory. `memoryBytes`: its limit, 0 when the task sets none. */
export const outOfMemory = (memoryBytes: number): string => {
  const amount = memoryBytes === 0 ? "more memory than it is given" : `more than ${formatBytes(memoryBytes)} of memory`
  return `a process was killed, because it used ${amount}`
}

/** Matches `exec: "nope": executable file not found in $PATH` anywhere in the message of runc. */
const RUNC = /exec:? "([^"]+)":? (?:stat [^:]+: )?(executable file not found|no such file or directory|permission denied)/

const CRUN = /executable file [`'"]([^`'"]+)[`'"] not found/

/** Names the program that a runtime could not execute; null when the message is about something else. */
export const describeMissingProgram = (message: string): string | null => {
  const missing = CRUN.exec(message)?.[1]
  if (missing !== undefined) return `${missing}: not found in this image`
  const exec = RUNC.exec(message)
  if (exec === null) return null
  const [, program, reason] = exec
  return reason === "permission denied" ? `${program}: not executable in this image` : `${program}: not found in this image`
}
