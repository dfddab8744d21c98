// The command of a task: a shell text with its values as variables, or an argument list of templates.

import type { Path } from "../model/problems.ts"
import type { CommandSpec } from "../model/workflow.ts"
import type { Context, ExpressionSite } from "./context.ts"
import { compileShell } from "./shell.ts"
import { isCodeFlag, isShell } from "./shell-words.ts"

export const compileCommand = (
  context: Context,
  command: string | string[],
  path: Path,
  place: ExpressionSite,
): CommandSpec => {
  if (typeof command !== "string") return compileArgv(context, command, path, place)
  if (command.trim() === "") context.problems.add(path, "is empty")
  if (command.includes("\0")) context.problems.add(path, "holds a NUL character")
  const { command: compiled, problems, unclosed } = compileShell(command)
  if (unclosed) context.unclosed(path)
  for (const { expr, message } of problems) context.problems.add(path, `\${{ ${expr} }} ${message}`)
  for (const { expr } of compiled.vars) context.use(expr, path, place)
  return compiled
}

const compileArgv = (context: Context, argv: string[], path: Path, place: ExpressionSite): CommandSpec => {
  if (argv.length === 0 || argv[0] === "") context.problems.add(path, "is empty: the first element is the program")
  const code = argv.findIndex((_, i) => i > 1 && isCodeFlag(argv[i - 1]!) && argv.slice(0, i - 1).some(isShell))
  return {
    argv: argv.map((word, i) => {
      if (word.includes("\0")) context.problems.add([...path, i], "holds a NUL character")
      const template = context.template(word, [...path, i], place)
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
