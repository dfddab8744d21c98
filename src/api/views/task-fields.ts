// The work of a task for display: its command and the other fields of its executor as in the definition, with unresolved expressions and
// without secrets.

import type { Json } from "../../core/model/json.ts"
import type { CommandSpec, Node, Template } from "../../core/model/workflow.ts"

const expressionText = (expr: string): string => `\${{ ${expr} }}`

const templateJson = (template: Template): Json => {
  if ("lit" in template) return template.lit
  if ("expr" in template) return expressionText(template.expr)
  if ("text" in template)
    return template.text.map((part) => (typeof part === "string" ? part : expressionText(part.expr))).join("")
  if ("list" in template) return template.list.map(templateJson)
  return Object.fromEntries(Object.entries(template.map).map(([key, value]) => [key, templateJson(value)]))
}

const commandOf = (command: CommandSpec): string | Json[] => {
  if ("argv" in command) return command.argv.map(templateJson)
  const byName = new Map(command.vars.map(({ name, expr }) => [name, expr]))
  return command.shell.replace(/("?)\$\{(\w+)\}\1/g, (all, quote: string, name: string) => {
    const expr = byName.get(name)
    return expr === undefined ? all : `${quote}${expressionText(expr)}${quote}`
  })
}

export const workShape = (node: Node) => ({
  executor: node.executor,
  command: node.command === undefined ? null : commandOf(node.command),
  file: node.file ?? null,
  function: node.function ?? null,
  image: node.image ?? null,
  fields: Object.fromEntries(Object.entries(node.fields).map(([name, value]) => [name, templateJson(value)])),
  timeout_ms: node.timeoutMs,
  cpu: node.resources?.cpu ?? null,
  memory_bytes: node.resources?.memoryBytes ?? null,
})
