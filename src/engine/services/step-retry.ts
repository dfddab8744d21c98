// Plans the retry of a durable function from one of its steps: that step and those that began after it run again.

import type { RunId } from "../../core/model/ids.ts"
import type { RetryRequest, StepKey } from "../../core/rules/runs/retry-plan.ts"
import { Conflict, NotFound } from "../../store/contract/errors.ts"
import type { FunctionStore } from "../../store/contract/functions.ts"
import type { Store } from "../../store/contract/store.ts"

export interface StepRetry {
  request: RetryRequest
  /** Names of the steps. */
  again: string[]
  kept: string[]
}

export const planStepRetry = async (
  store: Pick<Store, "getRun" | "getVersion"> & Pick<FunctionStore, "listSteps">,
  runId: RunId,
  { name, occurrence }: StepKey,
): Promise<StepRetry> => {
  const run = await store.getRun(runId)
  if (run === null) throw new NotFound(`there is no run ${runId}`)
  const [node] = (await store.getVersion(run.versionId)).nodes
  if (node?.durable !== true) throw new Conflict(`run ${runId} is not a durable function, and has no steps`)
  const steps = await store.listSteps(runId)
  const first = steps.findIndex((step) => step.name === name && step.occurrence === occurrence)
  if (first === -1) {
    const names = steps.map(stepName).join(", ") || "none yet"
    throw new Conflict(`run ${runId} has no step ${stepName({ name, occurrence })}; its steps are ${names}`)
  }
  const [kept, again] = [steps.slice(0, first), steps.slice(first)]
  return {
    request: { from: node.name, steps: again.map((step) => ({ name: step.name, occurrence: step.occurrence })) },
    again: again.map(stepName),
    kept: kept.map(stepName),
  }
}

/** Returns `charge`, and `charge (number 2)` for the second step of that name. */
const stepName = ({ name, occurrence }: StepKey): string => (occurrence === 0 ? name : `${name} (number ${occurrence + 1})`)
