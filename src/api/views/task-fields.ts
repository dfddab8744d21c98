// The work of a task for display: its command and the other fields of its executor as in the definition, with unresolved expressions and
// without secrets.

import { commandText, templateJson } from "../../core/model/definition-text.ts"
import { toText } from "../../core/expressions/expressions.ts"
import type { Node } from "../../core/model/workflow.ts"

export const workShape = (node: Node) => ({
  executor: node.executor,
  command: node.command === undefined ? null : commandText(node.command),
  file: node.file ?? null,
  function: node.function ?? null,
  image: node.image ?? null,
  fields: Object.fromEntries(Object.entries(node.fields).map(([name, value]) => [name, templateJson(value)])),
  timeout_ms: node.timeoutMs,
  deadline_ms: node.deadlineMs ?? null,
  cpu: node.resources?.cpu ?? null,
  memory_bytes: node.resources?.memoryBytes ?? null,
  artifacts: node.artifacts === undefined ? null : [templateJson(node.artifacts)].flat().map(toText),
})
