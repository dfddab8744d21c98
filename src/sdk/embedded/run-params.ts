// The params of a run, from the input that a program gives.

import { InvalidInputError } from "../errors.ts"
import { paramsOf } from "../to-json.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { bindParams } from "../../core/rules/runs/params.ts"
import type { JsonObject } from "../../core/values/json.ts"

/** Returns the params of a run with their defaults. Throws an InvalidInputError for params that the workflow does not accept. */
export const boundParams = (workflow: CompiledWorkflow, input: unknown, name: string): JsonObject => {
  const bound = bindParams(workflow, { values: paramsOf(input, name) })
  if (bound.ok) return bound.params
  throw new InvalidInputError(
    `the params of ${name}`,
    bound.problems.map(({ path, message }) => ({ path: path.replace(/^params\./, ""), message })),
  )
}
