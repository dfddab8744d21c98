// Expressions in shell commands. A small reader of shell text finds in which quotes each `${{ … }}` stands and puts a reference
// to an environment variable in its place, always as one word, so that no value can become syntax. Where that cannot be had
// (single quotes, heredocs, arithmetic, text that is read as code a second time) it says so.
//
// The reader knows quotes, escapes, comments, `$( )`, backticks, `${ }`, `$(( ))`, heredocs and `case`. It follows POSIX sh; it
// does not judge the script, the shell does that.

import type { CommandSpec } from "../model/workflow.ts"
import { readExpression } from "./templates.ts"

export interface ShellProblem {
  expr: string
  message: string
}

export type ShellCommand = Extract<CommandSpec, { shell: string }>

interface Frame {
  kind: "command" | "double" | "braces" | "arithmetic"
  /** What ends it. */
  close: string
  /** Inside double quotes, of its own or around it. */
  quoted: boolean
  /** The word that it is part of is read as code later (`sh -c`, `eval`). */
  code: string | null
  /** Parentheses open inside of arithmetic. */
  parens: number
  // Of commands: the words so far of the simple command, the current word, and `case` … `esac` that are open.
  words: string[]
  word: string | null
  cases: number
}

const SHELLS = new Set(["sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "su", "runuser"])
const BEFORE_A_COMMAND = new Set([
  "!",
  "{",
  "if",
  "then",
  "elif",
  "else",
  "while",
  "until",
  "do",
  "time",
  "command",
  "builtin",
  "exec",
  "sudo",
])
const READS_CODE = new Set(["eval", "trap"])

const ADVICE = {
  single: "stands inside single quotes, where the shell sees no variables; use double quotes around it",
  heredoc:
    "stands inside a heredoc; set a variable before it (X=${{ … }}) and write $X, or pass the value through `env` or `input`",
  arithmetic: "stands inside $(( )), where its text would be code; compute inside of the expression instead",
} as const

const codeAdvice = (command: string): string =>
  command === "eval" || command === "trap"
    ? `is an argument of ${command}, where its text would be code; set a variable (X=\${{ … }}) and name it as '"$X"' there`
    : `is part of the script of ${command} -c, where its text would be code; pass it as an argument: ${command} -c '… "$1" …' _ \${{ … }}`

export const isShell = (word: string): boolean => SHELLS.has(word.slice(word.lastIndexOf("/") + 1))
export const isCodeFlag = (word: string): boolean => /^-[A-Za-z]*c$/.test(word)

const VALUE_PREFIX = "ORK_VALUE_"

export const compileShell = (text: string): { command: ShellCommand; problems: ShellProblem[]; unclosed: boolean } => {
  const names = new Map<string, string>()
  const problems: ShellProblem[] = []
  const pending: { delimiter: string; strip: boolean }[] = []
  const frames: Frame[] = [frame("command", "", false, null)]
  let unclosed = false
  let out = ""
  let at = 0

  const top = (): Frame => frames[frames.length - 1]!
  const take = (length: number): string => {
    const taken = text.slice(at, at + length)
    out += taken
    at += length
    return taken
  }
  const open = (kind: Frame["kind"], close: string, length: number, quoted: boolean): void => {
    const outer = top()
    if (outer.kind === "command") outer.word ??= ""
    frames.push(frame(kind, close, quoted, outer.code ?? codeOf(outer)))
    take(length)
  }
  /** Text in double quotes belongs to the word around them. */
  const addToWord = (chars: string): void => {
    const current = top().kind === "double" ? frames[frames.length - 2]! : top()
    if (current.kind === "command") current.word = (current.word ?? "") + chars
  }

  /** At `${{`: replaces it, or says why not. Returns false when it is no expression. */
  const substitute = (place: "word" | keyof typeof ADVICE): boolean => {
    if (text.startsWith("$${{", at)) {
      addToWord("${{")
      out += "${{"
      at += 4
      return true
    }
    if (!text.startsWith("${{", at)) return false
    const expression = readExpression(text, at)
    if (expression === null) {
      unclosed = true
      take(text.length - at)
      return true
    }
    at = expression.end
    const current = top()
    const code = current.code ?? codeOf(current)
    if (code !== null && place !== "heredoc") problems.push({ expr: expression.source, message: codeAdvice(code) })
    else if (place !== "word") problems.push({ expr: expression.source, message: ADVICE[place] })
    let name = names.get(expression.source)
    if (name === undefined) names.set(expression.source, (name = `${VALUE_PREFIX}${names.size}`))
    out += current.quoted ? `\${${name}}` : `"\${${name}}"`
    addToWord("\0")
    return true
  }

  const singleQuotes = (escapes: boolean): void => {
    top().word ??= ""
    take(1)
    while (at < text.length && text[at] !== "'") {
      if (substitute("single")) continue
      if (escapes && text[at] === "\\") take(2)
      else addToWord(take(1))
    }
    take(1)
  }

  const heredocBodies = (): void => {
    for (const { delimiter, strip } of pending.splice(0)) {
      while (at < text.length) {
        const end = text.indexOf("\n", at)
        const line = text.slice(at, end === -1 ? text.length : end)
        if ((strip ? line.replace(/^\t+/, "") : line) === delimiter) {
          take(line.length + 1)
          break
        }
        const stop = at + line.length + 1
        while (at < stop && at < text.length) if (!substitute("heredoc")) take(1)
      }
    }
  }

  /** `<<EOF`, `<<-'EOF'`: the delimiter, its quotes removed. */
  const heredocStart = (): void => {
    const match = /^<<(-?)[ \t]*((?:\\.|'[^']*'|"[^"]*"|[^\s;&|<>()'"\\])+)/.exec(text.slice(at, at + 300))
    if (match === null) return void take(2)
    const delimiter = match[2]!.replace(
      /\\(.)|'([^']*)'|"([^"]*)"/g,
      (_, a?: string, b?: string, c?: string) => a ?? b ?? c ?? "",
    )
    pending.push({ delimiter, strip: match[1] === "-" })
    endWord(top())
    take(match[0].length)
  }

  const stepCommand = (current: Frame): void => {
    const char = text[at]!
    if (char === current.close && !(char === ")" && current.cases > 0)) {
      endWord(current)
      frames.pop()
      return void take(1)
    }
    switch (char) {
      case "'":
        return singleQuotes(false)
      case "\n":
        endCommand(current)
        take(1)
        return heredocBodies()
      case " ":
      case "\t":
        endWord(current)
        return void take(1)
      case "#":
        if (current.word !== null) return addToWord(take(1))
        while (at < text.length && text[at] !== "\n") take(1)
        return
      case "(":
        endCommand(current)
        frames.push(frame("command", ")", false, current.code))
        return void take(1)
      case ";":
      case "&":
      case "|":
      case ")":
        endCommand(current)
        return void take(1)
      case "<":
        if (text.startsWith("<<<", at)) {
          endWord(current)
          return void take(3)
        }
        if (text.startsWith("<<", at)) return heredocStart()
        endWord(current)
        return void take(1)
      case ">":
        endWord(current)
        return void take(1)
      default:
        return addToWord(take(1))
    }
  }

  while (at < text.length) {
    const current = top()
    const char = text[at]!
    if (char === "\\") {
      addToWord(text[at + 1] === "\n" ? "" : (text[at + 1] ?? ""))
      take(2)
    } else if (char === "$" && substitute(current.kind === "arithmetic" ? "arithmetic" : "word")) {
      continue
    } else if (text.startsWith("$((", at)) {
      open("arithmetic", "))", 3, true)
    } else if (text.startsWith("$(", at)) {
      open("command", ")", 2, false)
    } else if (text.startsWith("${", at)) {
      open("braces", "}", 2, current.quoted)
    } else if (char === "`" && current.close !== "`") {
      open("command", "`", 1, false)
    } else if (char === "$" && text[at + 1] === "'" && !current.quoted && current.kind === "command") {
      take(1)
      singleQuotes(true)
    } else if (current.kind === "arithmetic") {
      if (char === "(") current.parens++
      if (char === ")" && current.parens-- <= 0) {
        frames.pop()
        take(text[at + 1] === ")" ? 2 : 1)
      } else take(1)
    } else if (char === '"') {
      if (current.kind === "double") {
        frames.pop()
        take(1)
      } else open("double", '"', 1, true)
    } else if (current.kind === "command") {
      stepCommand(current)
    } else if (current.kind === "braces" && char === "'" && !current.quoted) {
      singleQuotes(false)
    } else if (current.kind === "braces" && char === "}") {
      frames.pop()
      take(1)
    } else {
      addToWord(take(1))
    }
  }
  const vars = [...names].map(([expr, name]) => ({ name, expr }))
  return { command: { shell: out, vars }, problems, unclosed }
}

const frame = (kind: Frame["kind"], close: string, quoted: boolean, code: string | null): Frame => ({
  kind,
  close,
  quoted,
  code,
  parens: 0,
  words: [],
  word: null,
  cases: 0,
})

const endWord = (current: Frame): void => {
  if (current.word === null) return
  const first = current.words.every((word) => BEFORE_A_COMMAND.has(word))
  if (first && current.word === "case") current.cases++
  if (first && current.word === "esac") current.cases = Math.max(0, current.cases - 1)
  current.words.push(current.word)
  current.word = null
}

const endCommand = (current: Frame): void => {
  endWord(current)
  current.words = []
}

/** The command that will read the word now being written as code, or null. */
const codeOf = ({ kind, words }: Frame): string | null => {
  if (kind !== "command") return null
  const command = words.find((word) => !BEFORE_A_COMMAND.has(word) && !/^[A-Za-z_][A-Za-z0-9_]*=/.test(word))
  if (command === undefined) return null
  if (READS_CODE.has(command)) return command
  const flag = words.at(-1)!
  if (!isCodeFlag(flag)) return null
  const shell = words.slice(0, -1).find(isShell)
  return shell === undefined ? null : shell.slice(shell.lastIndexOf("/") + 1)
}
