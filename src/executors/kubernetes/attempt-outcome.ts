// What a standing means for the attempt: whether it has begun, how it would end, what an end without a word from `ork exec` is. Pure.

import type { Gone } from "../exec/exec.ts"
import { hasCondition, type JobObject } from "./shapes.ts"
import type { Ending, Standing } from "./classify.ts"

export const hasBegun = (standing: Standing): boolean =>
  standing.phase === "running" || (standing.phase === "ended" && standing.ending.exitCode !== null)

export const endOf = (standing: Standing): Ending | null => {
  switch (standing.phase) {
    case "waiting":
    case "running":
      return null
    case "ended":
    case "leaving":
      return standing.ending
    case "stuck":
      return {
        state: "failed",
        error: standing.error,
        exitCode: null,
        message: "",
        ...(standing.hopeless && { retryable: false as const }),
      }
    default:
      return standing satisfies never
  }
}

export const goneOf = (ending: Ending | null): Gone => {
  if (ending === null) return { state: "lost", error: "nobody follows it any more" }
  const { state, error, exitCode } = ending
  const base = exitCode === null ? {} : { exitCode }
  if (state === "success")
    return { ...base, state: "failed", error: "its container ended without a word: does its image run `ork exec`?" }
  return { ...base, state, ...(error !== null && { error }) }
}

/** The Job makes no pod any more. */
export const isSettled = ({ status, metadata }: JobObject): boolean =>
  metadata.deletionTimestamp !== undefined ||
  ["FailureTarget", "Failed", "SuccessCriteriaMet", "Complete"].some(
    (type) => hasCondition(status?.conditions, type) !== undefined,
  )
