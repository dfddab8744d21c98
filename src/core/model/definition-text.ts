// Compiled commands and templates as in the definition, with unresolved expressions and without secrets, for display.

import type { Json } from "../values/json.ts"
import type { CommandSpec, Template } from "./workflow.ts"

const expressionText = (expr: string): string => `\${{ ${expr} }}`

export const templateJson = (template: Template): Json => {
  if ("lit" in template) return template.lit
  if ("expr" in template) return expressionText(template.expr)
  if ("text" in template)
    return template.text.map((part) => (typeof part === "string" ? part : expressionText(part.expr))).join("")
  if ("list" in template) return template.list.map(templateJson)
  return Object.fromEntries(Object.entries(template.map).map(([key, value]) => [key, templateJson(value)]))
}

export const commandText = (command: CommandSpec): string | Json[] => {
  if ("argv" in command) return command.argv.map(templateJson)
  const byName = new Map(command.vars.map(({ name, expr }) => [name, expr]))
  return command.shell.replace(/("?)\$\{(\w+)\}\1/g, (all, quote: string, name: string) => {
    const expr = byName.get(name)
    return expr === undefined ? all : `${quote}${expressionText(expr)}${quote}`
  })
}
