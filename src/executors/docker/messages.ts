// Messages about containers that failed or could not be started.

import type { AttemptResult } from "../../core/model/change.ts"
import { describeExitCode, outOfMemory, describeMissingProgram } from "../container-messages.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { EngineError } from "./engine.ts"
import { MissingImage } from "./image.ts"
import { ForbiddenMount } from "./mounts.ts"

/** `State` of a container as the engine shows it. */
export interface ContainerState {
  Status: string
  ExitCode: number
  OOMKilled: boolean
  Error: string
  FinishedAt: string
}

/** Returns null for exit code 0. */
export const describeExit = ({ ExitCode, OOMKilled, Error: error }: ContainerState, memoryBytes: number): string | null => {
  if (ExitCode === 0) return null
  const exit = describeExitCode(ExitCode)
  if (OOMKilled) return `${exit}: ${outOfMemory(memoryBytes)}`
  return error === "" ? exit : `${exit}: ${error}`
}

const describeStartFailure = (message: string): string => {
  const program = describeMissingProgram(message)
  if (program !== null) return program
  const bind = /bind source path does not exist:? (\S+)/.exec(message)
  if (bind !== null) {
    return `${bind[1]} does not exist on the engine's machine (when Ork runs in a container, its folders must be mounted there under the same paths)`
  }
  return message
}

/** Returns the result of an attempt whose container never ran. */
export const startFailure = (error: unknown, finishedAt: number): AttemptResult => {
  const base = { state: "failed", startedAt: null, finishedAt } as const
  if (error instanceof MissingImage || error instanceof ForbiddenMount) {
    return { ...base, error: `could not start: ${error.message}`, retryable: false }
  }
  const badRequest = error instanceof EngineError && error.status === 400
  return {
    ...base,
    error: `could not start: ${describeStartFailure(messageOf(error))}`,
    ...(badRequest && { retryable: false }),
  }
}
