// What went wrong with a container, in words.

import type { AttemptResult } from "../../core/model/change.ts"
import { describeExitCode, outOfMemory, describeMissingProgram } from "../container-messages.ts"
import { messageOf } from "../../core/model/error-message.ts"
import { EngineError } from "./engine.ts"
import { NoSuchImage } from "./image.ts"

/** `State` of a container as the engine shows it. */
export interface ContainerState {
  Status: string
  ExitCode: number
  OOMKilled: boolean
  Error: string
}

/** null: exit 0. */
export const exitInWords = ({ ExitCode, OOMKilled, Error: error }: ContainerState, memoryBytes: number): string | null => {
  if (ExitCode === 0) return null
  const end = describeExitCode(ExitCode)
  if (OOMKilled) return `${end}: ${outOfMemory(memoryBytes)}`
  return error === "" ? end : `${end}: ${error}`
}

const startInWords = (message: string): string => {
  const program = describeMissingProgram(message)
  if (program !== null) return program
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
