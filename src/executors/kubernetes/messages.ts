// Messages about containers that failed.

import { describeExitCode, describeMissingProgram, outOfMemory } from "../container-messages.ts"
import type { Terminated } from "./shapes.ts"

/** Characters of the termination message that an error quotes. */
const MAX_MESSAGE = 1000

export const describeExit = ({ exitCode, reason, message = "" }: Terminated, memoryBytes: number): string => {
  const exit = describeExitCode(exitCode)
  if (reason === "OOMKilled") return `${exit}: ${outOfMemory(memoryBytes)}`
  const last = message.trim()
  return last === "" ? exit : `${exit}: ${last.slice(-MAX_MESSAGE)}`
}

export const describeStartFailure = (message: string): string =>
  describeMissingProgram(message) ?? (message || "the container could not be run")
