// Classifies an execution by its conditions and counts. Pure.

import { signalName } from "../messages.ts"
import type { Outcome } from "../remote/remote-attempt.ts"
import type { Execution, Task } from "./shapes.ts"

export type Phase = "waiting" | "running" | "success" | "failed" | "cancelled"

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

export const isEnded = (execution: Execution): boolean => !["waiting", "running"].includes(phaseOf(execution))

/** Returns why the execution has not started; null when Cloud Run gives no reason. */
export const waitingReason = (execution: Execution): string | null => {
  const message = execution.conditions?.find(({ message: text, state }) => text && state !== "CONDITION_SUCCEEDED")?.message
  return message ? `Cloud Run: ${message}` : null
}

/** Matches the message of every container that ended with a code other than 0. */
const GENERIC_MESSAGE = /^The container exited (?:with an error|abnormally)\.?$/i

/** Returns the outcome of an execution that has ended. `task`: null when it could not be read. */
export const outcomeOf = (execution: Execution, task: Task | null): Outcome => {
  const phase = phaseOf(execution)
  if (phase === "success") return { state: "success", error: null, exitCode: 0 }
  const last = task?.lastAttemptResult
  const exitCode = last?.exitCode ? last.exitCode : null
  if (phase === "cancelled") return { state: "failed", error: "its execution was cancelled from outside of Ork", exitCode }
  const message = last?.status?.message ?? ""
  if (/timeout was reached|timed out/i.test(message))
    return { state: "timeout", error: `stopped by Cloud Run: ${message}`, exitCode }
  const details = message === "" || GENERIC_MESSAGE.test(message) ? "" : `: ${message}`
  if (last?.termSignal) return { state: "failed", error: `killed by ${signalName(last.termSignal)}${details}`, exitCode }
  if (exitCode !== null) return { state: "failed", error: `exit code ${exitCode}${details}`, exitCode }
  return { state: "failed", error: message || completed(execution)?.message || "its execution failed", exitCode }
}
