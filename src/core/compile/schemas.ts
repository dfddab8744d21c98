// JSON Schemas of a definition: `types`, and `output` of a task, which is a schema or the name of a type.

import type { Json, JsonObject } from "../model/json.ts"
import type { Path } from "../model/problems.ts"
import { schemaProblem } from "../model/json-schema.ts"
import type { CompileContext } from "./context.ts"
import { quote } from "./names.ts"

export const checkTypes = (context: CompileContext, types: { [name: string]: JsonObject }): void => {
  for (const [name, schema] of Object.entries(types)) checkOne(context, schema, ["types", name])
}

const checkOne = (context: CompileContext, schema: JsonObject, path: Path): void => {
  const problem = schemaProblem(schema)
  if (problem !== null) context.problems.add(path, `is not a valid JSON Schema: ${problem}`)
}

export const outputSchema = (
  context: CompileContext,
  output: Json | undefined,
  types: { [name: string]: JsonObject },
  path: Path,
): JsonObject | undefined => {
  if (output === undefined) return undefined
  if (typeof output === "string") {
    if (Object.hasOwn(types, output)) return types[output]
    const hint = Object.keys(types).length === 0 ? "; `types` is empty" : ""
    context.problems.add(path, `there is no type ${quote(output)}${hint}`, context.nearest(output, Object.keys(types)))
    return undefined
  }
  checkOne(context, output as JsonObject, path)
  return output as JsonObject
}
