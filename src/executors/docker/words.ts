// What went wrong with a container, in words.

import type { AttemptResult } from "../../core/change.ts"
import { bytesInWords, messageOf, signalName } from "../words.ts"
import { EngineError } from "./engine.ts"
import { NoSuchImage } from "./image.ts"

/** `State` of a container as the engine shows it. */
export interface ContainerState {
  Status: string
  ExitCode: number
  OOMKilled: boolean
  Error: string
}

const SIGNALLED = 128
/** What shells and the container's init end with. */
const NOT_RUN: Readonly<Record<number, string>> = { 126: " (a command is not executable)", 127: " (a command was not found)" }

/** null: exit 0. */
export const exitInWords = ({ ExitCode, OOMKilled, Error: error }: ContainerState, memoryBytes: number): string | null => {
  if (ExitCode === 0) return null
  const signal = ExitCode > SIGNALLED && ExitCode <= SIGNALLED + 64 ? ` (${signalName(ExitCode - SIGNALLED)})` : ""
  const end = `exit code ${ExitCode}${NOT_RUN[ExitCode] ?? signal}`
  if (OOMKilled) {
    const much = memoryBytes === 0 ? "more memory than the engine gives it" : `more than ${bytesInWords(memoryBytes)} of memory`
    return `${end}: a process was killed, as it used ${much}`
  }
  return error === "" ? end : `${end}: ${error}`
}

/** `exec: "nope": executable file not found in $PATH`, wherever it stands in a runtime's long message. */
const EXEC = /exec:? "([^"]+)":? (?:stat [^:]+: )?(executable file not found|no such file or directory|permission denied)/

const startInWords = (message: string): string => {
  const exec = EXEC.exec(message)
  if (exec !== null) {
    const [, program, reason] = exec
    return reason === "permission denied" ? `${program}: not executable in this image` : `${program}: not found in this image`
  }
  const bind = /bind source path does not exist:? (\S+)/.exec(message)
  if (bind !== null) {
    return `${bind[1]} is not there on the engine's machine (when Ork runs in a container, its folders must be mounted there under the same paths)`
  }
  return message
}

/** An attempt whose container never ran. */
export const unstarted = (error: unknown, finishedAt: number): AttemptResult => {
  const base = { state: "failed", startedAt: null, finishedAt } as const
  if (error instanceof NoSuchImage) return { ...base, error: `could not start: ${error.message}`, retryable: false }
  // Only what the request itself holds can be wrong then.
  const refused = error instanceof EngineError && error.status === 400
  return {
    ...base,
    error: `could not start: ${startInWords(messageOf(error))}`,
    ...(refused && { retryable: false }),
  }
}
