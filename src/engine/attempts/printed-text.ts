// Warns of a null output that an expression reads, although the task has printed something: its author probably meant that text.

import { isOutputRead } from "./expression-scope.ts"
import type { Output } from "../../core/model/change.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { logFiles } from "../../objects/logs/log-files.ts"
import type { ObjectStore } from "../../objects/objects.ts"

const WARNING =
  "an expression reads the output of a task that printed text, which is null: set `output: text`, `lines` or `json` on the task"

export interface Success {
  workflow: CompiledWorkflow
  /** Index of the task. */
  node: number
  output: Output | null
  /** Prefix of the attempt's objects. */
  prefix: string
}

/** Returns the warning about a successful attempt, or null. */
export const printedTextWarning = async (
  objects: ObjectStore,
  { workflow, node, output, prefix }: Success,
): Promise<string | null> => {
  const { command, outputFormat } = workflow.nodes[node]!
  if (command === undefined || outputFormat !== undefined) return null
  if (output !== null && (!("inline" in output) || output.inline !== null)) return null
  if (!isOutputRead(workflow, node)) return null
  const bytes = await logFiles(objects, prefix)
    .size("log")
    .catch(() => 0)
  return bytes === 0 ? null : WARNING
}
