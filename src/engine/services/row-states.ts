// The rows that a retry plan is made from, read in pages.

import type { EngineOptions } from "../ports.ts"
import type { RunId } from "../../core/model/ids.ts"
import { isGroup } from "../../core/model/task-path.ts"
import type { NodeState } from "../../core/rules/retry-plan.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"

const STATES_PAGE = 1000

/** Of every row that is no instance of a plain fan-out. */
export const rowStates = async (
  store: EngineOptions["store"],
  runId: RunId,
  workflow: CompiledWorkflow,
): Promise<NodeState[]> => {
  const states = await store.listNodes(runId)
  if (!workflow.nodes.some(isGroup)) return states
  for (let after = 0; ;) {
    const page = await store.listInner({ runId, after, limit: STATES_PAGE })
    states.push(...page)
    if (page.length < STATES_PAGE) return states
    after = page.at(-1)!.row
  }
}
