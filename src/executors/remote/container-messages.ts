// Ends and failed starts of containers in words, whoever runs them.

import { bytesInWords, signalName } from "../messages.ts"

const SIGNALLED = 128
/** What shells and the container's init end with. */
const NOT_RUN: Readonly<Record<number, string>> = { 126: " (a command is not executable)", 127: " (a command was not found)" }

export const exitCodeInWords = (code: number): string => {
  const signal = code > SIGNALLED && code <= SIGNALLED + 64 ? ` (${signalName(code - SIGNALLED)})` : ""
  return `exit code ${code}${NOT_RUN[code] ?? signal}`
}

export const outOfMemory = (memoryBytes: number): string => {
  const much = memoryBytes === 0 ? "more memory than it is given" : `more than ${bytesInWords(memoryBytes)} of memory`
  return `a process was killed, as it used ${much}`
}

/** `exec: "nope": executable file not found in $PATH`, wherever it stands in a runtime's long message. */
const EXEC = /exec:? "([^"]+)":? (?:stat [^:]+: )?(executable file not found|no such file or directory|permission denied)/

/** The same as crun has it. */
const MISSING = /executable file [`'"]([^`'"]+)[`'"] not found/

/** null: it is about something else. */
export const programInWords = (message: string): string | null => {
  const missing = MISSING.exec(message)?.[1]
  if (missing !== undefined) return `${missing}: not found in this image`
  const exec = EXEC.exec(message)
  if (exec === null) return null
  const [, program, reason] = exec
  return reason === "permission denied" ? `${program}: not executable in this image` : `${program}: not found in this image`
}
