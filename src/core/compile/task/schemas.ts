// JSON Schemas of a definition: `types`, and `output` of a task, which is a schema, the name of a type, or the format of standard output.

import type { JsonObject } from "../../values/json.ts"
import type { Path } from "../../model/problems.ts"
import { schemaProblem } from "../../values/json-schema.ts"
import { type Node, OUTPUT_FORMATS } from "../../model/workflow.ts"
import type { CompileContext } from "../context/context.ts"
import type { ExecutorRule } from "./executors.ts"
import { quote } from "../context/names.ts"
import type { TaskSource } from "./task.ts"

export const checkTypes = (context: CompileContext, types: { [name: string]: JsonObject }): void => {
  for (const [name, schema] of Object.entries(types)) checkOne(context, schema, ["types", name])
}

const checkOne = (context: CompileContext, schema: JsonObject, path: Path): void => {
  const problem = schemaProblem(schema)
  if (problem !== null) context.problems.add(path, `is not a valid JSON Schema: ${problem}`)
}

/** Compiles `output`. The name of a type wins over the format of that name. */
export const compileOutput = (
  context: CompileContext,
  { merged: { output }, path, types }: Pick<TaskSource, "merged" | "path" | "types">,
  { accepts }: ExecutorRule,
): Pick<Node, "output" | "outputFormat"> => {
  const at = [...path, "output"]
  if (output === undefined) return {}
  if (typeof output !== "string") {
    checkOne(context, output, at)
    return { output }
  }
  if (Object.hasOwn(types, output)) return { output: types[output]! }
  const outputFormat = OUTPUT_FORMATS.find((format) => format === output)
  if (outputFormat === undefined) {
    const message = `there is no type ${quote(output)} under \`types\`; for standard output, write ${OUTPUT_FORMATS.join(", ")}`
    context.problems.add(at, message, context.nearest(output, [...Object.keys(types), ...OUTPUT_FORMATS]))
    return {}
  }
  if (accepts.includes("command")) return { outputFormat }
  context.problems.add(at, `${output} is for tasks with a command; the output of this task is not what it prints`)
  return {}
}
