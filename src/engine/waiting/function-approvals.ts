// Answers to approvals that durable functions wait for. An answer is a signal, of which the store accepts the first.

import type { ApprovalSignal } from "./external-signals.ts"
import { approvalRequestOf, approvalSignal } from "../../core/model/function-signals.ts"
import { type Clock, iso } from "../../core/model/ports.ts"
import { describeAction } from "../../store/contract/audit-scope.ts"
import { Conflict, NotFound } from "../../store/contract/errors.ts"
import type { FunctionStore, Step } from "../../store/contract/functions.ts"
import type { Store } from "../../store/contract/store.ts"

export interface FunctionApprovalOptions {
  store: Pick<Store, "getRun" | "getVersion"> & Pick<FunctionStore, "listSteps" | "sendSignal">
  clock: Pick<Clock, "now">
}

/** Returns false when the run is not a durable function. The `path` of the answer is the number of the step among those of its name. */
export const answerFunction = async (
  { store, clock }: FunctionApprovalOptions,
  { runId, name, path, approved, comment, by }: ApprovalSignal,
): Promise<boolean> => {
  const run = await store.getRun(runId)
  if (run === null || (await store.getVersion(run.versionId)).nodes[0]?.durable !== true) return false
  const approvals = (await store.listSteps(runId)).filter(({ kind }) => kind === "approval")
  const { details } = waitingStep(approvals, { what: `run ${runId}`, name, path })
  const payload = { approved, comment, by, at: iso(clock.now()) }
  describeAction({ made: (outcome: string) => outcome === "sent" })
  const outcome = await store.sendSignal({ runId, ...approvalSignal(approvalRequestOf(details)!), payload })
  if (outcome === "ended") throw new Conflict(`run ${runId} has ended`)
  if (outcome !== "sent") throw new Conflict(`step ${name} of run ${runId} was answered just now`)
  return true
}

const waitingStep = (approvals: readonly Step[], { what, name, path }: { what: string; name: string; path: string }): Step => {
  const named = approvals.filter((step) => step.name === name && (path === "" || String(step.occurrence) === path))
  const waiting = named.find(({ state }) => state === "waiting")
  if (waiting !== undefined) return waiting
  if (named.length > 0) throw new Conflict(`step ${name} of ${what} does not wait for approval: it was answered`)
  const names = approvals.flatMap((step) => (step.state === "waiting" ? [step.name] : []))
  throw new NotFound(
    `${what} has no step ${name} that waits for approval; ${names.length === 0 ? "none does" : `these do: ${names.join(", ")}`}`,
  )
}
