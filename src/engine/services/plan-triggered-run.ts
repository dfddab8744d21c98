// Plans the run that a trigger creates, or says why it creates none.

import { renderParams } from "./run-params.ts"
import type { Evaluator, Logger } from "../ports.ts"
import type { RunCause } from "../../core/model/cause.ts"
import { newRunId } from "../../core/model/ids.ts"
import { type Clock, iso, type Random } from "../../core/model/ports.ts"
import { dayIn } from "../../core/time/schedule.ts"
import type { NewRun, Store } from "../../store/contract/store.ts"
import type { TriggerRow } from "../../store/contract/triggers.ts"

export interface TriggeredRunOptions {
  store: Pick<Store, "getVersion">
  evaluator: Pick<Evaluator, "render">
  clock: Clock
  random: Random
  log: Logger
}

export interface Occasion {
  trigger: "after" | "path"
  cause: RunCause
  logicalDate: string | null
  timezone: string | null
}

export const planTriggeredRun = async (
  { store, evaluator, clock, random, log }: TriggeredRunOptions,
  { workflow, workflowId, versionId, spec }: TriggerRow,
  { trigger, cause, logicalDate, timezone }: Occasion,
): Promise<{ run: NewRun } | { problem: string }> => {
  const instant = logicalDate ?? iso(clock.now())
  const scope = { logical_date: instant, date: dayIn(timezone ?? "UTC", new Date(instant)), trigger, cause }
  const params = await renderParams(evaluator, await store.getVersion(versionId), spec.params, scope)
  if ("problem" in params) {
    const fields = { workflow, cause, problem: params.problem }
    log.error(fields, "the params of a trigger do not fit its workflow; no run was created")
    return { problem: `the params of the trigger do not fit the workflow: ${params.problem}` }
  }
  return {
    run: {
      id: newRunId(clock.now(), random.hex128()),
      workflowId,
      versionId,
      trigger,
      cause,
      params: params.values,
      priority: null,
      logicalDate,
      ...(timezone !== null && { timezone }),
      idempotencyKey: null,
      private: false,
      workingDir: null,
    },
  }
}
