// The params of a run that a schedule or a trigger creates: those that it gives, over the workflow's defaults.

import type { Evaluator } from "../ports.ts"
import type { ExpressionScope } from "../../core/expressions/expressions.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { JsonObject } from "../../core/values/json.ts"
import type { CompiledWorkflow, Template } from "../../core/model/workflow.ts"
import { bindParams } from "../../core/rules/runs/params.ts"

/** Renders the params of a run. `given`: params whose expressions can refer to the run. */
export const renderParams = async (
  evaluator: Pick<Evaluator, "render">,
  workflow: CompiledWorkflow,
  given: Template | undefined,
  run: Omit<ExpressionScope["run"], "id" | "workflow">,
): Promise<{ values: JsonObject } | { problem: string }> => {
  const scope = { params: {}, tasks: {}, run: { id: "", workflow: workflow.name, ...run } }
  try {
    const values = given === undefined ? {} : ((await evaluator.render(given, scope)) as JsonObject)
    const bound = bindParams(workflow, { values })
    return bound.ok
      ? { values: bound.params }
      : { problem: bound.problems.map(({ path, message }) => `${path} ${message}`).join("; ") }
  } catch (error) {
    return { problem: messageOf(error) }
  }
}
