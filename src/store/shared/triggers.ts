// Triggers of a deployed version in both stores.

import { cycleMessage, triggerCycle, type TriggerEdge } from "../../core/rules/runs/trigger-cycle.ts"
import type { CompiledWorkflow, TriggerSpec } from "../../core/model/workflow.ts"
import { Conflict } from "../contract/errors.ts"
import type { TriggerRow } from "../contract/triggers.ts"

export interface DeployedTriggers {
  workflowId: number
  versionId: number
  /** The workflow is not paused. */
  active: boolean
  specs: readonly TriggerSpec[]
}

/** Returns the workflows that a trigger follows. */
export const upstreams = (spec: TriggerSpec): string[] => ("after" in spec ? spec.after : [])

/** Returns the patterns that triggers watch, each once. */
export const patternsOf = (specs: readonly TriggerSpec[]): string[] => [
  ...new Set(specs.flatMap((spec) => ("path" in spec ? [spec.path] : []))),
]

/** Throws a `Conflict` when the workflow would follow itself. `deployed`: what the other workflows follow. */
export const rejectTriggerCycle = ({ name, triggers = [] }: CompiledWorkflow, deployed: readonly TriggerEdge[]): void => {
  const others = deployed.filter(({ workflow }) => workflow !== name)
  const own = triggers.flatMap(upstreams).map((upstream) => ({ workflow: name, upstream }))
  const cycle = triggerCycle([...others, ...own], name)
  if (cycle !== null) throw new Conflict(cycleMessage(cycle))
}

export const TRIGGER_COLUMNS = `
SELECT t.id, t.workflow_id AS "workflowId", w.name AS workflow, t.version_id AS "versionId", t.position, t.spec, NOT t.active AS paused,
  t.problem
FROM triggers t JOIN workflows w ON w.id = t.workflow_id`

export type TriggerColumns = Omit<TriggerRow, "spec" | "paused"> & { spec: string; paused: boolean | number }

export const triggerOf = (columns: TriggerColumns): TriggerRow => ({
  ...columns,
  spec: JSON.parse(columns.spec) as TriggerSpec,
  paused: Boolean(columns.paused),
})
