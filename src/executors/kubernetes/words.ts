// Ends of containers in words.

import { bytesInWords, signalName } from "../words.ts"
import type { Terminated } from "./shapes.ts"

const SIGNALLED = 128
const NOT_RUN: Readonly<Record<number, string>> = { 126: " (a command is not executable)", 127: " (a command was not found)" }
/** Of what a container leaves as its last words. */
const MAX_MESSAGE = 1000

export const exitInWords = ({ exitCode, reason, message = "" }: Terminated, memoryBytes: number): string => {
  const signal = exitCode > SIGNALLED && exitCode <= SIGNALLED + 64 ? ` (${signalName(exitCode - SIGNALLED)})` : ""
  const end = `exit code ${exitCode}${NOT_RUN[exitCode] ?? signal}`
  if (reason === "OOMKilled") {
    const much = memoryBytes === 0 ? "more memory than it may have" : `more than ${bytesInWords(memoryBytes)} of memory`
    return `${end}: killed, as it used ${much}`
  }
  const last = message.trim()
  return last === "" ? end : `${end}: ${last.slice(-MAX_MESSAGE)}`
}

/** `exec: "nope": executable file not found in $PATH`, wherever it stands in a runtime's long message. */
const EXEC = /exec:? "([^"]+)":? (?:stat [^:]+: )?(executable file not found|no such file or directory|permission denied)/

export const startInWords = (message: string): string => {
  const exec = EXEC.exec(message)
  if (exec === null) return message || "the container could not be run"
  const [, program, reason] = exec
  return reason === "permission denied" ? `${program}: not executable in this image` : `${program}: not found in this image`
}
