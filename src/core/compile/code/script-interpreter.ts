// Selects the program that runs a text command: the one that its first line names (`#!`), else that of `shell`, else /bin/sh. Shells stop
// at the first command that fails.

import type { TaskDefinition } from "../../model/definition.ts"
import { ASSIGNMENT } from "./code-arguments.ts"

export interface ScriptInterpreter {
  /** The program and its arguments; the script follows as the last argument. */
  argv: string[]
  program: string
  /** The script is one of a POSIX shell, in which a value can be a variable. */
  isShell: boolean
}

interface Language {
  program: RegExp
  /** Options that precede those of the author, who can therefore undo them. */
  options: readonly string[]
  /** Option whose value is the script. */
  code: string
  isShell: boolean
}

const LANGUAGES: readonly Language[] = [
  { program: /^(?:ba|z)sh$/, options: ["-e", "-o", "pipefail"], code: "-c", isShell: true },
  { program: /^(?:da|a|k|mk)?sh$/, options: ["-e"], code: "-c", isShell: true },
  // Unbuffered, so that lines are in the log when they are printed.
  { program: /^python[\d.]*$/, options: ["-u"], code: "-c", isShell: false },
  { program: /^node(?:js)?$/, options: [], code: "-e", isShell: false },
  { program: /^(?:perl|ruby)[\d.]*$/, options: [], code: "-e", isShell: false },
]

export const SHELL_NAMES = ["sh", "bash", "python", "node"] as const

const NAMED_SHELLS = { sh: "/bin/sh", bash: "bash", python: "python3", node: "node" } as const satisfies Record<
  (typeof SHELL_NAMES)[number],
  string
>

/** Throws an InterpreterError. */
export const selectInterpreter = (script: string, shell: TaskDefinition["shell"] = "sh"): ScriptInterpreter => {
  const firstLine = /^#!([^\n]*)/.exec(script)?.[1]
  if (firstLine !== undefined) return interpreterOfLine(firstLine)
  return typeof shell === "string" ? interpreterOf([NAMED_SHELLS[shell]]) : interpreterOfPrefix(shell)
}

/** `field`: where the problem is. */
export class InterpreterError extends Error {
  readonly field: "command" | "shell"
  constructor(field: InterpreterError["field"], message: string) {
    super(message)
    this.field = field
  }
}

const interpreterOfLine = (line: string): ScriptInterpreter => {
  const words = line.split(/\s+/).filter((word) => word !== "" && word !== "-S")
  if (words[programIndex(words)] === undefined)
    throw new InterpreterError("command", "begins with #!, which must name a program")
  if (line.includes("${{")) throw new InterpreterError("command", "must not contain an expression in its first line (#!)")
  return interpreterOf(words)
}

const interpreterOfPrefix = (words: string[]): ScriptInterpreter => {
  const program = words[programIndex(words)]
  if (program === undefined) throw new InterpreterError("shell", "is empty; it must be a program and its arguments")
  const language = languageOf(program)
  if (language !== undefined && !new RegExp(`^-\\w*${language.code.slice(1)}$`).test(words.at(-1)!)) {
    const example = JSON.stringify([...words, language.code])
    throw new InterpreterError(
      "shell",
      `must end with ${language.code}, because the script follows as the last argument: ${example}`,
    )
  }
  return { argv: words, program: baseName(program), isShell: language?.isShell ?? false }
}

const interpreterOf = (words: string[]): ScriptInterpreter => {
  const at = programIndex(words)
  const program = words[at]!
  const language = languageOf(program)
  if (language === undefined) return { argv: throughFile(words), program: baseName(program), isShell: false }
  const { options, code, isShell } = language
  return { argv: [...words.slice(0, at + 1), ...options, ...words.slice(at + 1), code], program: baseName(program), isShell }
}

/** Returns the index of the program in `/usr/bin/env NAME=value program …`. */
const programIndex = (words: readonly string[]): number => {
  const isProgram = (word: string, i: number): boolean => i > 0 && !word.startsWith("-") && !ASSIGNMENT.test(word)
  return baseName(words[0] ?? "") === "env" ? words.findIndex(isProgram) : 0
}

const languageOf = (program: string): Language | undefined =>
  LANGUAGES.find((language) => language.program.test(baseName(program)))

const baseName = (program: string): string => program.slice(program.lastIndexOf("/") + 1)

/** Returns a command that writes the script, its `$0`, to a file, because the program runs files only. */
const throughFile = (words: readonly string[]): string[] => {
  const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ")
  // With the trap, the shell ends after the program, which receives the same signal, and removes the file.
  const run = `trap : TERM INT && { ${quoted} "$f"; code=$?; rm -f "$f"; exit $code; }`
  return ["/bin/sh", "-c", `f=$(mktemp) && printf %s "$0" >"$f" && ${run}`]
}
