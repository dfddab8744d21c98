// Compiles a shell command. Each expression becomes a quoted reference to an environment variable, so that no value becomes syntax.
// Where the shell would read no variable, or where the shell or a program would read the value as code, the expression is a problem.

import type { CommandSpec } from "../../model/workflow.ts"
import { analyzeCommand, ASSIGNMENT, type CodeArgument, type CommandAnalysis, UNKNOWN } from "./code-arguments.ts"
import { mentionedFiles, type MentionedFile } from "./command-files.ts"
import { loadsCode } from "./interpreters.ts"
import { ShellScanner } from "./shell-scanner.ts"
import type { ExpressionPosition, ScannedScript, ShellWord, SimpleCommand, ValueUse } from "./shell-states.ts"

export type ShellCommand = Extract<CommandSpec, { shell: string }>

export interface CompiledShell {
  command: ShellCommand
  problems: string[]
  unclosed: boolean
  files: MentionedFile[]
}

const VALUE_PREFIX = "ORK_VALUE_"

/** Compiles a shell script. `variables`: names of environment variables whose values contain expressions. */
export const compileShell = (text: string, variables: Iterable<string> = []): CompiledShell => {
  const names = new Map<string, string>()
  const misplaced: string[] = []
  const scanner = new ShellScanner(text, (expr, position) => {
    const message = problemAt(position)
    if (message !== null) misplaced.push(`\${{ ${expr} }} ${message}`)
    let name = names.get(expr)
    if (name === undefined) names.set(expr, (name = `${VALUE_PREFIX}${names.size}`))
    return position.quoted ? `\${${name}}` : `"\${${name}}"`
  })
  const scanned = scanner.scan()
  const values = new Values(scanned, variables)
  const problems: string[] = []
  if (scanned.tooDeep)
    problems.push("nests quotes, groups and substitutions more than 100 levels deep; move parts of it to a script")
  const guarded = new Map<string, string[]>()
  const analyzed = scanned.commands.map((command) => ({ ...command, analysis: analyzeCommand(command.words) }))
  for (const { analysis, ...command } of analyzed) {
    problems.push(...codeProblems(command, analysis, values, scanned.commands.length === 1))
    for (const exprs of optionValues(command, analysis, scanned.uses)) guarded.set(exprs.join("\n"), exprs)
  }
  const command: ShellCommand = {
    shell: scanned.script,
    vars: [...names].map(([expr, name]) => ({ name, expr })),
    ...(guarded.size > 0 && { guarded: [...guarded.values()].map((exprs) => exprs.map((expr) => names.get(expr)!)) }),
  }
  // The advice for code is the better one: quotes would not help there.
  const found = problems.length === 0 ? misplaced : problems
  return { command, problems: [...new Set(found)], unclosed: scanned.unclosed, files: mentionedFiles(analyzed) }
}

const problemAt = ({ syntax }: ExpressionPosition): string | null => {
  switch (syntax) {
    case "word":
      return null
    case "single_quotes":
      return "is inside single quotes, where the shell expands no variables; use double quotes"
    case "heredoc":
      return "is inside a heredoc; set a variable before it (X=${{ … }}) and write $X, or pass the value through `env` or `input`"
    case "arithmetic":
      return "is inside $(( )) or similar syntax, where the shell would run its value as code; compute inside the expression instead"
    default:
      return syntax satisfies never
  }
}

/** The uses of values in a script: expressions, and variables that received them. */
class Values {
  readonly #uses: readonly ValueUse[]
  readonly #variables: Set<string>
  /** Number of uses of values before each use. */
  readonly #before: number[] = [0]

  constructor({ commands, uses }: ScannedScript, variables: Iterable<string>) {
    this.#uses = uses
    this.#variables = receivingVariables(commands, uses, variables)
    for (const use of uses) this.#before.push(this.#before.at(-1)! + (this.#isValue(use) ? 1 : 0))
  }

  get any(): boolean {
    return this.has(0, this.#uses.length)
  }

  has(from: number, to: number): boolean {
    return this.#before[to]! > this.#before[from]!
  }

  /** Returns the first value in a range, as the author wrote it. */
  first(from: number, to: number): string {
    for (let i = from; i < to; i++) {
      const use = this.#uses[i]!
      if (this.#isValue(use)) return "expr" in use ? `\${{ ${use.expr} }}` : `$${use.variable}`
    }
    return "a value"
  }

  #isValue(use: ValueUse): boolean {
    return "expr" in use || this.#variables.has(use.variable)
  }
}

/** Returns the variables that contain values: by `env`, assignment, `for` or `read`, or as arguments of a function. */
const receivingVariables = (
  commands: readonly SimpleCommand[],
  uses: readonly ValueUse[],
  variables: Iterable<string>,
): Set<string> => {
  const found = new Set<string>()
  const receivers = new Map<string, string[]>()
  const pending: string[] = [...variables]
  const assign = (name: string, from: number, to: number): void => {
    for (let i = from; i < to; i++) {
      const use = uses[i]!
      if ("expr" in use) pending.push(name)
      else if (receivers.has(use.variable)) receivers.get(use.variable)!.push(name)
      else receivers.set(use.variable, [name])
    }
  }
  if (uses.some((use) => "expr" in use)) pending.push(..."0123456789@*")
  for (const use of uses) if ("variable" in use && use.variable.startsWith(VALUE_PREFIX)) pending.push(use.variable)
  for (const { words } of commands) {
    for (const { text, from, to } of words) {
      const name = text.includes("=") ? ASSIGNMENT.exec(text)?.[1] : undefined
      if (name !== undefined) assign(name, from, to)
    }
    const [first, second, , ...items] = words
    if (first?.text === "for" && second !== undefined) for (const { from, to } of items) assign(second.text, from, to)
    const read = words.findIndex(({ text }) => text === "read")
    if (read !== -1 && uses.length > 0) pending.push(...words.slice(read + 1).map(({ text }) => text))
  }
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    if (found.has(name)) continue
    found.add(name)
    pending.push(...(receivers.get(name) ?? []))
  }
  return found
}

const codeProblems = (
  command: SimpleCommand,
  analysis: CommandAnalysis<ShellWord>,
  values: Values,
  isOnly: boolean,
): string[] => {
  if (!values.any && !isOnly) return []
  const { words } = command
  const problems: string[] = []
  for (const argument of analysis.arguments) {
    const { from, to } = argument.word
    if (values.has(from, to)) problems.push(`${values.first(from, to)} ${codeMessage(argument)}`)
  }
  const isEval = words.slice(analysis.program, analysis.program + 3).some(({ text }) => text === "eval")
  if (isEval && values.any) problems.push(EVAL_PROBLEM)
  for (const { text, from, to } of words) {
    const name = text.includes("=") ? ASSIGNMENT.exec(text)?.[1] : undefined
    if (name !== undefined && loadsCode(name) && values.has(from, to))
      problems.push(`${values.first(from, to)} ${variableMessage(name)}`)
    if (/^[A-Za-z_][A-Za-z0-9_]*\[[^\]=]*\0/.test(text) && values.has(from, to)) {
      problems.push(`${values.first(from, to)} is the index of an array, which the shell would run as code`)
    }
  }
  const stdin = stdinProblem(command, analysis.readsStdin, values, isOnly)
  return stdin === null ? problems : [...problems, stdin]
}

const EVAL_PROBLEM =
  "uses eval together with expressions, so that a value could run as code; remove eval, or move it to a task without expressions"

export const variableMessage = (name: string): string =>
  `is the value of ${name}, through which programs load code; write a fixed value, and pass the value in another variable`

/** Programs that join their arguments to a command for another machine. */
const REMOTE_SHELLS = new Set(["ssh", "autossh", "slogin", "rsh"])

/** Says how to write the command instead. */
export const codeMessage = ({ program, use }: Pick<CodeArgument<ShellWord>, "program" | "use">): string => {
  switch (use) {
    case "program":
      return "would choose the program that runs; name the program, and choose with `case` or `if`"
    case "script":
      return `would choose the script that ${program} runs; name the script, and choose with \`case\` or \`if\``
    case "code":
      if (REMOTE_SHELLS.has(program)) {
        return `is part of the command of ${program}, which a shell on the other machine runs as code, also as a separate argument; send it through standard input: printf '%s\\n' \${{ … }} | ${program} HOST 'read -r x; … "$x" …'`
      }
      return /^(?:ba|da|a|z|k)?sh$/.test(program)
        ? `is part of the script of ${program} -c, which would run its value as code; pass it as an argument: ${program} -c '… "$1" …' -- \${{ … }}`
        : `is part of what ${program} runs as code; pass it as a separate argument or variable, or read it from the file $ORK_INPUT`
    default:
      return use satisfies never
  }
}

const stdinProblem = (
  { inputs, heredoc, pipedFrom, from }: SimpleCommand,
  readsStdin: CommandAnalysis<ShellWord>["readsStdin"],
  values: Values,
  isOnly: boolean,
): string | null => {
  if (readsStdin === null) return null
  const { program, language } = readsStdin
  const reads = `${program} reads its code from standard input`
  const advice = "let it run a script that reads the value from the file $ORK_INPUT"
  const input = inputs.at(-1)
  if (input !== undefined) {
    return values.has(input.from, input.to)
      ? `${values.first(input.from, input.to)} is redirected there: ${reads}; ${advice}`
      : null
  }
  if (heredoc !== null)
    return heredoc.expands && values.any ? `${reads}, and the heredoc contains variables; quote its delimiter (<<'EOF')` : null
  if (pipedFrom !== null)
    return values.has(pipedFrom, from) ? `${values.first(pipedFrom, from)} is piped there: ${reads}; ${advice}` : null
  return isOnly && language ? `${reads}, which is the input of the task; name a script` : null
}

/** Commands of the shell whose words are not arguments. */
const KEYWORDS = new Set(["for", "case", "select", "[[", "function", "in"])

/** Returns the expressions with which arguments begin, unless a `--` precedes them. */
const optionValues = (
  { words }: SimpleCommand,
  { program }: CommandAnalysis<ShellWord>,
  uses: readonly ValueUse[],
): string[][] => {
  if (words[program] === undefined || KEYWORDS.has(words[program].text)) return []
  const end = words.findIndex(({ text }, i) => i > program && text === "--")
  return words
    .slice(program + 1, end === -1 ? words.length : end)
    .filter(({ leading, text }) => leading > 0 && text.startsWith(UNKNOWN))
    .map(({ from, leading }) => uses.slice(from, from + leading).flatMap((use) => ("expr" in use ? [use.expr] : [])))
}
