// What an execution's conditions and counts say about the attempt. Pure.

import type { AttemptState } from "../../core/model/status.ts"
import { signalName } from "../messages.ts"
import type { Execution, Task } from "./shapes.ts"

export type Phase = "waiting" | "running" | "success" | "failed" | "cancelled"

export interface Ending {
  state: Extract<AttemptState, "success" | "failed" | "lost" | "timeout">
  error: string | null
  exitCode: number | null
}

const completed = ({ conditions }: Execution) => conditions?.find(({ type }) => type === "Completed")

export const phaseOf = (execution: Execution): Phase => {
  const condition = completed(execution)
  const state = condition?.state
  if (state === "CONDITION_SUCCEEDED") return "success"
  const ended = state === "CONDITION_FAILED" || Boolean(execution.completionTime)
  if (ended) {
    if (condition?.executionReason === "CANCELLED" || (execution.cancelledCount ?? 0) > 0) return "cancelled"
    return state !== "CONDITION_FAILED" && (execution.succeededCount ?? 0) > 0 ? "success" : "failed"
  }
  return (execution.runningCount ?? 0) > 0 ? "running" : "waiting"
}

/** Why it has not begun; null: not said. */
export const waitsFor = (execution: Execution): string | null => {
  const message = execution.conditions?.find(({ message: text, state }) => text && state !== "CONDITION_SUCCEEDED")?.message
  return message ? `Cloud Run: ${message}` : null
}

/** What Cloud Run says of every container that ended with a code other than 0. */
const NOTHING_NEW = /^The container exited (?:with an error|abnormally)\.?$/i

/** How one ended that has. `task`: null when it could not be had. */
export const endingOf = (execution: Execution, task: Task | null): Ending => {
  const phase = phaseOf(execution)
  if (phase === "success") return { state: "success", error: null, exitCode: 0 }
  const last = task?.lastAttemptResult
  const exitCode = last?.exitCode ? last.exitCode : null
  if (phase === "cancelled") return { state: "failed", error: "its execution was cancelled from outside of Ork", exitCode }
  const said = last?.status?.message ?? ""
  if (/timeout was reached|timed out/i.test(said)) return { state: "timeout", error: `stopped by Cloud Run: ${said}`, exitCode }
  const more = said === "" || NOTHING_NEW.test(said) ? "" : `: ${said}`
  if (last?.termSignal) return { state: "failed", error: `killed by ${signalName(last.termSignal)}${more}`, exitCode }
  if (exitCode !== null) return { state: "failed", error: `exit code ${exitCode}${more}`, exitCode }
  return { state: "failed", error: said || completed(execution)?.message || "its execution failed", exitCode }
}
