// The result of a stopped attempt, for every executor.

import type { AttemptResult } from "../core/model/change.ts"
import type { Assignment, StopReason } from "./executor.ts"

export const stoppedResult = (reason: StopReason, base: Omit<AttemptResult, "state">, { node }: Assignment): AttemptResult => {
  switch (reason) {
    case "cancel":
      return { ...base, state: "cancelled", error: "cancelled" }
    case "timeout":
      return {
        ...base,
        state: "timeout",
        error: node.timeoutMs === null ? "timed out" : `timed out after ${node.timeoutMs / 1000} s`,
      }
    case "shutdown":
      return { ...base, state: "lost", error: "stopped, because Ork is shutting down" }
    case "lost":
      return { ...base, state: "lost", error: "stopped, because its holder lost its lease" }
    default:
      return reason satisfies never
  }
}
