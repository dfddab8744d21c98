// Compiles the command of a task: a shell script whose values are variables, or a list of arguments that are templates.

import type { Path } from "../model/problems.ts"
import type { CommandSpec } from "../model/workflow.ts"
import type { CompileContext, ExpressionSite } from "./context.ts"
import { compileShell } from "./shell.ts"
import { isCodeFlag, isShell } from "./shell-words.ts"

export const compileCommand = (
  context: CompileContext,
  command: string | string[],
  path: Path,
  site: ExpressionSite,
): CommandSpec => {
  if (typeof command !== "string") return compileArgv(context, command, path, site)
  if (command.trim() === "") context.problems.add(path, "is empty")
  if (command.includes("\0")) context.problems.add(path, "contains a NUL character")
  const { command: compiled, problems, unclosed } = compileShell(command)
  if (unclosed) context.unclosed(path)
  for (const { expr, message } of problems) context.problems.add(path, `\${{ ${expr} }} ${message}`)
  for (const { expr } of compiled.vars) context.use(expr, path, site)
  return compiled
}

const compileArgv = (context: CompileContext, argv: string[], path: Path, site: ExpressionSite): CommandSpec => {
  if (argv.length === 0 || argv[0] === "") context.problems.add(path, "is empty; the first element must be the program")
  const code = argv.findIndex((_, i) => i > 1 && isCodeFlag(argv[i - 1]!) && argv.slice(0, i - 1).some(isShell))
  return {
    argv: argv.map((word, i) => {
      if (word.includes("\0")) context.problems.add([...path, i], "contains a NUL character")
      const template = context.template(word, [...path, i], site)
      if (i === code && !("lit" in template)) {
        context.problems.add(
          [...path, i],
          'an expression in the script of a shell would be code; pass it as an argument: [sh, -c, \'… "$1" …\', _, "${{ … }}"]',
        )
      }
      return template
    }),
  }
}
