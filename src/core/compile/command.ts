// Compiles the command of a task: a shell script whose values are variables, or a list of arguments that are templates. Rejects commands
// in which a program would read a value as code.

import type { TaskDefinition } from "../model/definition.ts"
import { toText } from "../expressions/expressions.ts"
import type { Path } from "../model/problems.ts"
import type { CommandSpec, EnvValue, Template } from "../model/workflow.ts"
import { analyzeCommand, UNKNOWN, type Word } from "./code-arguments.ts"
import type { CompileContext, ExpressionSite } from "./context.ts"
import { codeMessage, compileShell } from "./shell.ts"

export interface CommandSource {
  path: Path
  site: ExpressionSite
  /** Fields of the task including defaults. */
  merged: TaskDefinition
  env: { [name: string]: EnvValue }
}

/** Executors whose `command` is the program and its arguments. In others, a program of the image may precede it. */
const PROGRAM_EXECUTORS: readonly (string | undefined)[] = [undefined, "process", "slurm"]

export const compileCommand = (context: CompileContext, command: string | string[], source: CommandSource): CommandSpec => {
  const compiled = typeof command === "string" ? compileText(context, command, source) : compileArgv(context, command, source)
  if (source.merged.allow_option_values === true) delete compiled.guarded
  return compiled
}

const compileText = (context: CompileContext, command: string, { path, site, env }: CommandSource): CommandSpec => {
  const at = [...path, "command"]
  if (command.trim() === "") context.problems.add(at, "is empty")
  if (command.includes("\0")) context.problems.add(at, "contains a NUL character")
  const variables = Object.entries(env).flatMap(([name, value]) => ("value" in value && !("lit" in value.value) ? [name] : []))
  const { command: compiled, problems, unclosed } = compileShell(command, variables)
  if (unclosed) context.unclosed(at)
  for (const problem of problems) context.problems.add(at, problem)
  for (const { expr } of compiled.vars) context.use(expr, at, site)
  return compiled
}

interface Argument extends Word {
  path: Path
}

const compileArgv = (context: CompileContext, argv: string[], source: CommandSource): CommandSpec => {
  const at = [...source.path, "command"]
  if (argv.length === 0 || argv[0] === "") context.problems.add(at, "is empty; the first element must be the program")
  const templates = argv.map((word, i) => {
    if (word.includes("\0")) context.problems.add([...at, i], "contains a NUL character")
    return context.template(word, [...at, i], source.site)
  })
  const entrypoint = checkEntrypoint(source)
  checkCode(context, source, [...entrypoint, ...templates.map((template, i) => ({ text: textOf(template), path: [...at, i] }))])
  const isProgram = PROGRAM_EXECUTORS.includes(source.merged.executor) && entrypoint.length === 0
  const end = argv.indexOf("--")
  const guarded = templates.flatMap((template, i) =>
    (isProgram && i === 0) || (end !== -1 && i > end) || !textOf(template).startsWith(UNKNOWN) ? [] : [i],
  )
  return { argv: templates, ...(guarded.length > 0 && { guarded }) }
}

/** Checks the entrypoint of a container whose task has no `command`. */
export const checkContainerEntrypoint = (context: CompileContext, source: CommandSource): void =>
  checkCode(context, source, checkEntrypoint(source))

/** Returns the words that precede the command in a container. */
const checkEntrypoint = ({ path, merged }: CommandSource): Argument[] => {
  const { executor } = merged
  if (executor !== "docker" && executor !== "kubernetes") return []
  const words = merged[executor]?.entrypoint ?? []
  return words.map((text, i) => ({
    text: text.replaceAll(/\$\{\{[^]*?\}\}/g, UNKNOWN),
    path: [...path, executor, "entrypoint", i],
  }))
}

const checkCode = (context: CompileContext, { path, merged }: CommandSource, words: Argument[]): void => {
  const isProgram = PROGRAM_EXECUTORS.includes(merged.executor)
  const { arguments: found, readsStdin } = analyzeCommand(words)
  for (const { word, program, use } of found) {
    if (use === "program" && word === words[0] && !isProgram) continue
    context.problems.add(word.path, `an expression ${codeMessage({ program, use })}`)
  }
  if (readsStdin?.language === true && isProgram) {
    const message = `${readsStdin.program} reads its code from standard input, which is the input of the task; name a script`
    context.problems.add([...path, "command"], message)
  }
}

/** Returns the text of an argument with `UNKNOWN` in place of its expressions. */
const textOf = (template: Template): string => {
  if ("lit" in template) return toText(template.lit)
  if ("text" in template) return template.text.map((part) => (typeof part === "string" ? part : UNKNOWN)).join("")
  return UNKNOWN
}
