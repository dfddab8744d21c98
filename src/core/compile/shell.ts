// Compiles a shell command. Each expression becomes a quoted reference to an environment variable, so that no value becomes syntax.
// Where the shell would read no variable, or would read the value as code, the expression is a problem.

import type { CommandSpec } from "../model/workflow.ts"
import { type ExpressionPosition, ShellScanner } from "./shell-scanner.ts"

export interface ShellProblem {
  expr: string
  message: string
}

export type ShellCommand = Extract<CommandSpec, { shell: string }>

const VALUE_PREFIX = "ORK_VALUE_"

export const compileShell = (text: string): { command: ShellCommand; problems: ShellProblem[]; unclosed: boolean } => {
  const names = new Map<string, string>()
  const problems: ShellProblem[] = []
  const scanner = new ShellScanner(text, (expr, position) => {
    const message = problemAt(position)
    if (message !== null) problems.push({ expr, message })
    let name = names.get(expr)
    if (name === undefined) names.set(expr, (name = `${VALUE_PREFIX}${names.size}`))
    return position.quoted ? `\${${name}}` : `"\${${name}}"`
  })
  const { script, unclosed } = scanner.scan()
  return { command: { shell: script, vars: [...names].map(([expr, name]) => ({ name, expr })) }, problems, unclosed }
}

const problemAt = ({ syntax, codeCommand }: ExpressionPosition): string | null => {
  if (codeCommand !== null && syntax !== "heredoc") return codeProblem(codeCommand)
  switch (syntax) {
    case "word":
      return null
    case "single_quotes":
      return "is inside single quotes, where the shell expands no variables; use double quotes"
    case "heredoc":
      return "is inside a heredoc; set a variable before it (X=${{ … }}) and write $X, or pass the value through `env` or `input`"
    case "arithmetic":
      return "is inside $(( )), where the shell would run its value as code; compute inside the expression instead"
    default:
      return syntax satisfies never
  }
}

const codeProblem = (command: string): string =>
  command === "eval" || command === "trap"
    ? `is an argument of ${command}, which would run its value as code; set a variable (X=\${{ … }}) and write '"$X"' there`
    : `is part of the script of ${command} -c, which would run its value as code; pass it as an argument: ${command} -c '… "$1" …' _ \${{ … }}`
