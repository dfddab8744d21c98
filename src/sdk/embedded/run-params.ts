// The params of a run, from the input that a program gives.

import { InvalidInputError } from "../errors.ts"
import { toJson } from "../to-json.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { bindParams } from "../../core/rules/runs/params.ts"
import { isObject, type JsonObject } from "../../core/values/json.ts"

export const paramsOf = (input: unknown, name: string): JsonObject => {
  const params = toJson(input ?? {}, `the input of ${name}`)
  if (isObject(params)) return params
  throw new TypeError(`the input of workflow ${name} must be an object`)
}

/** Returns the params of a run with their defaults. Throws an InvalidInputError for params that the workflow does not accept. */
export const boundParams = (workflow: CompiledWorkflow, input: unknown, name: string): JsonObject => {
  const bound = bindParams(workflow, { values: paramsOf(input, name) })
  if (bound.ok) return bound.params
  throw new InvalidInputError(
    `the params of ${name}`,
    bound.problems.map(({ path, message }) => ({ path: path.replace(/^params\./, ""), message })),
  )
}
