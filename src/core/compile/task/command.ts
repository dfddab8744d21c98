// Compiles the command of a task: a shell script whose values are variables, or a list of arguments that are templates. Rejects commands
// in which a program would read a value as code.

import type { TaskDefinition } from "../../model/definition.ts"
import { toText } from "../../expressions/expressions.ts"
import type { Path } from "../../model/problems.ts"
import { type CommandSpec, DEFAULT_INTERPRETER, type EnvValue, type Template } from "../../model/workflow.ts"
import { analyzeCommand, UNKNOWN, type Word } from "../code/code-arguments.ts"
import { joinPath, mentionedFiles, type MentionedFile } from "../code/command-files.ts"
import type { CompileContext, ExpressionSite } from "../context/context.ts"
import { InterpreterError, type ScriptInterpreter, selectInterpreter } from "../code/script-interpreter.ts"
import { codeMessage, compileShell } from "../code/shell.ts"
import { splitText } from "../code/templates.ts"

export interface CommandSource {
  path: Path
  site: ExpressionSite
  own: TaskDefinition
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

const compileText = (context: CompileContext, command: string, source: CommandSource): CommandSpec => {
  const at = [...source.path, "command"]
  if (command.trim() === "") context.problems.add(at, "is empty")
  if (command.includes("\0")) context.problems.add(at, "contains a NUL character")
  const { argv, program, isShell } = compileInterpreter(context, command, source)
  const compiled = isShell ? compileShellScript(context, command, source) : compileCode(context, command, source, program)
  const isDefault = argv.join("\0") === DEFAULT_INTERPRETER.join("\0")
  return { ...compiled, ...(!isDefault && { interpreter: argv }) }
}

const compileInterpreter = (
  context: CompileContext,
  command: string,
  { path, merged: { shell } }: CommandSource,
): ScriptInterpreter => {
  if (Array.isArray(shell)) shell.forEach((word, i) => context.literal(word, [...path, "shell", i]))
  try {
    return selectInterpreter(command, shell)
  } catch (error) {
    if (!(error instanceof InterpreterError)) throw error
    context.problems.add([...path, error.field], error.message)
    return selectInterpreter("")
  }
}

/** Compiles a script of another language than the shell, in which every value would be code. */
const compileCode = (context: CompileContext, command: string, { path }: CommandSource, program: string): CommandSpec => {
  const at = [...path, "command"]
  const { parts, unclosed } = splitText(command)
  if (unclosed) context.unclosed(at)
  for (const part of parts) {
    if (typeof part === "string") continue
    const advice = "pass the value through `env`, or read it from the file $ORK_INPUT"
    context.problems.add(at, `\${{ ${part.expr} }} is part of what ${program} runs as code; ${advice}`)
  }
  return { shell: parts.filter((part) => typeof part === "string").join(""), vars: [] }
}

const compileShellScript = (context: CompileContext, command: string, source: CommandSource): CommandSpec => {
  const { path, site, env } = source
  const at = [...path, "command"]
  const variables = Object.entries(env).flatMap(([name, value]) => ("value" in value && !("lit" in value.value) ? [name] : []))
  const { command: compiled, problems, unclosed, files } = compileShell(command, variables)
  addFiles(context, source, files)
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
  if (source.own.shell !== undefined) {
    context.problems.addKey(
      [...source.path, "shell"],
      "runs a text only, but the command is a list: its first element is the program",
    )
  }
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

/** Executors whose commands run in a container without the run's folder. */
const FOREIGN_FOLDER: readonly (string | undefined)[] = ["kubernetes", "cloudrun"]

/** Records the files that a command may name, relative to the folder of the definition. */
const addFiles = (context: CompileContext, { path, merged }: CommandSource, files: readonly MentionedFile[]): void => {
  const { executor, working_dir: folder = "" } = merged
  if (FOREIGN_FOLDER.includes(executor) || folder.startsWith("/") || folder.includes("${{")) return
  if (folder !== "")
    context.files.push({ path: [...path, "working_dir"], file: joinPath("", folder), isRun: false, isPath: true })
  for (const file of files) context.files.push({ ...file, path: [...path, "command"], file: joinPath(folder, file.file) })
}

const checkCode = (context: CompileContext, source: CommandSource, words: Argument[]): void => {
  const { path, merged } = source
  const isProgram = PROGRAM_EXECUTORS.includes(merged.executor)
  const analysis = analyzeCommand(words)
  const { arguments: found, readsStdin } = analysis
  addFiles(context, source, mentionedFiles([{ words, analysis }]))
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
