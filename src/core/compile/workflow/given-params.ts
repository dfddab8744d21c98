// Checks the params that a schedule or a trigger gives to its runs.

import type { JsonObject } from "../../values/json.ts"
import type { Path } from "../../model/problems.ts"
import type { ParamSpec } from "../../model/workflow.ts"
import type { CompileContext } from "../context/context.ts"
import { quote } from "../context/names.ts"

/** Checks the params that a schedule or trigger gives. `path`: that of the schedule or trigger, which has the values under `params`. */
export const checkGivenParams = (
  context: CompileContext,
  { given, path, params }: { given: JsonObject; path: Path; params: readonly ParamSpec[] },
): void => {
  const names = params.map((param) => param.name)
  for (const name of Object.keys(given)) {
    if (!names.includes(name))
      context.problems.addKey([...path, "params", name], `there is no param ${quote(name)}`, context.nearest(name, names))
  }
  for (const param of params) {
    if (!param.required || param.default !== undefined || Object.hasOwn(given, param.name)) continue
    context.problems.add(path, `has no value for the required param ${quote(param.name)}; add it under params`)
  }
}
