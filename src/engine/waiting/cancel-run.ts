// Cancels runs. A durable function is asked to end, so that the steps of its `finally` blocks can run: one that is suspended is resumed
// first. Jobs and runs that it has started are cancelled with it.

import { CANCEL_SIGNAL, type Child, childOf } from "../../core/model/function-signals.ts"
import type { RunId } from "../../core/model/ids.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { accepts } from "../../core/routing/capabilities.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { FunctionStore } from "../../store/contract/functions.ts"
import type { JobStore } from "../../store/contract/jobs.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

export type CancelStore = Pick<Store, "getRun" | "getVersion" | "getTask" | "listHolders" | "requestCancel"> &
  Pick<FunctionStore, "sendSignal" | "listSteps"> &
  Pick<JobStore, "cancelJob">

/** Returns false when the run has ended. A second request ends a function at once that no process has resumed yet. */
export const cancelRun = async (store: CancelStore, runId: RunId): Promise<boolean> => {
  const run = await store.getRun(runId)
  if (run === null || isRunClosed(run.status)) return false
  const [node] = (await store.getVersion(run.versionId)).nodes
  if (node?.durable !== true) return await store.requestCancel(runId, "cancel")
  const isAsked = await askToEnd(store, run, node)
  const isRequested = await store.requestCancel(runId, "cancel", { inFlight: isAsked })
  if (isAsked && !isRequested) return true
  for (const { kind, state, details } of await store.listSteps(runId)) {
    const child = kind === "call" && state === "waiting" ? childOf(details) : null
    if (child !== null) await cancelChild(store, child)
  }
  return isRequested
}

/** Cancels a job or run that a function has started. One that has ended stays as it is. */
export const cancelChild = async (store: CancelStore, { kind, id }: Child): Promise<void> => {
  if (kind === "task") await store.cancelJob(id)
  else await cancelRun(store, id as RunId)
}

/**
 * Asks a function that has begun to end, if a process can run it; one that is suspended is resumed. Returns whether it was asked for the
 * first time.
 */
const askToEnd = async (store: CancelStore, { id: runId, paused }: RunRow, node: Node): Promise<boolean> => {
  const task = await store.getTask({ runId, name: node.name, path: "" })
  const hasBegun = task !== null && (task.status !== "pending" || task.startedAt !== null)
  if (paused || !hasBegun) return false
  const holders = await store.listHolders()
  if (!holders.some(({ dead, capabilities }) => !dead && capabilities !== null && accepts(capabilities, node))) return false
  const outcome = await store.sendSignal({ runId, name: CANCEL_SIGNAL, payload: null, key: CANCEL_SIGNAL })
  return outcome === "sent"
}
