// Finds the arguments of one simple command that a program reads as code. Used for shell commands and for argument lists.

import { type Interpreter, interpreterOf, UNKNOWN_PROGRAM } from "./interpreters.ts"

/** Stands for text that is not known before the task runs: the value of an expression or variable, the output of a command. */
export const UNKNOWN = "\0"

/** A word whose unknown parts are `UNKNOWN`. */
export interface Word {
  text: string
}

export interface CodeArgument<W extends Word> {
  word: W
  /** Name of the program, and how it uses the word. */
  program: string
  use: "code" | "script" | "program"
}

export interface CommandAnalysis<W extends Word> {
  arguments: CodeArgument<W>[]
  /** Index of the program in the words; the number of words when there is none. */
  program: number
  /** The file with code that the program runs; null when there is none. */
  script: W | null
  /** The program that reads code from standard input, because no argument is code. `language`: it reads nothing else from there. */
  readsStdin: { program: string; language: boolean } | null
}

/** Words that may precede the name of a command. */
const COMMAND_PREFIXES = new Set(["!", "{", "if", "then", "elif", "else", "while", "until", "do", "coproc"])
export const ASSIGNMENT = /^([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=/

export const isCommandPrefix = (word: string): boolean => COMMAND_PREFIXES.has(word)

export const analyzeCommand = <W extends Word>(words: readonly W[]): CommandAnalysis<W> => {
  const program = words.findIndex(({ text }) => !isCommandPrefix(text) && !ASSIGNMENT.test(text))
  if (program === -1) return { arguments: [], program: words.length, script: null, readsStdin: null }
  const found: CodeArgument<W>[] = []
  const first = words[program]!
  if (isSelected(first.text)) found.push({ word: first, program: first.text, use: "program" })
  if (first.text === "[[") found.push(...arithmeticOperands(words))
  let reader = ArgumentReader.of(first.text, found) ?? ArgumentReader.ofVariable(first.text, found)
  for (let i = program + 1; i < words.length && reader !== null; i++) {
    const inner: ArgumentReader<W> | null = reader.isWrapper ? ArgumentReader.of(words[i]!.text, found) : null
    if (inner !== null && (reader.isBuiltin || !inner.isBuiltin)) reader = inner
    else {
      const goesOn = reader.read(words[i]!)
      if (reader.runsVariable) reader = ArgumentReader.ofVariable(words[i]!.text, found)
      else if (!goesOn) break
    }
  }
  const readsStdin = xargsCode(words, program, reader) ?? reader?.readsStdin ?? null
  return { arguments: found, program, script: reader?.script ?? null, readsStdin }
}

const REPLACES = /^-(?:I|i|-replace|J)/

/** Returns the interpreter whose code `xargs` completes with its input: with `-I`, or when the command has no code of its own. */
const xargsCode = <W extends Word>(
  words: readonly W[],
  program: number,
  reader: ArgumentReader<W> | null,
): CommandAnalysis<W>["readsStdin"] => {
  const isXargs = words.slice(program).some(({ text }) => interpreterOf(text)?.name === "xargs")
  if (!isXargs || reader === null || reader.isWrapper) return null
  return reader.isComplete && !words.some(({ text }) => REPLACES.test(text))
    ? null
    : { program: `xargs ${reader.name}`, language: false }
}

const ARITHMETIC = new Set(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])

/** Returns the operands that `[[` evaluates, so that a value such as `a[$(…)]` would run. */
const arithmeticOperands = <W extends Word>(words: readonly W[]): CodeArgument<W>[] =>
  words
    .filter(({ text }, i) => {
      const before = words[i - 1]?.text ?? ""
      return text.includes(UNKNOWN) && (ARITHMETIC.has(before) || before === "-v" || ARITHMETIC.has(words[i + 1]?.text ?? ""))
    })
    .map((word) => ({ word, program: "[[", use: "code" }))

/** Returns true when the beginning or the end of a file's name is unknown: `jobs/${{ item }}.py` can only name a file like the author's. */
const isSelected = (text: string): boolean => text.startsWith(UNKNOWN) || text.endsWith(UNKNOWN)

const STDIN_NAMES = new Set(["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"])

/** Reads the arguments of one program from left to right. */
class ArgumentReader<W extends Word> {
  readonly name: string
  readonly #spec: Interpreter
  readonly #found: CodeArgument<W>[]
  #pending: "code" | "value" | null = null
  #operands = 0
  #optionsEnded = false
  /** An option that the table does not know came before: the next word may be its value. */
  #unknownOption = false
  /** An option has given the code, or said that an operand does. */
  #codeGiven = false
  #forcedStdin = false
  /** The program only prints its version or help. */
  #informs = false
  #script: W | null = null
  /** A variable names the program that it runs. */
  runsVariable = false
  /** The next operand is a program. */
  #programFollows = false

  static of<V extends Word>(text: string, found: CodeArgument<V>[]): ArgumentReader<V> | null {
    const known = text.includes(UNKNOWN) ? null : interpreterOf(text)
    return known === null ? null : new ArgumentReader(known.name, known.interpreter, found)
  }

  /** Returns null unless a variable is a part of the program's name. */
  static ofVariable<V extends Word>(text: string, found: CodeArgument<V>[]): ArgumentReader<V> | null {
    const { name, interpreter } = UNKNOWN_PROGRAM
    return text.includes(UNKNOWN) ? new ArgumentReader(name, interpreter, found) : null
  }

  constructor(name: string, spec: Interpreter, found: CodeArgument<W>[]) {
    this.name = name
    this.#spec = spec
    this.#found = found
  }

  get isBuiltin(): boolean {
    return this.#spec.builtin === true
  }

  get isWrapper(): boolean {
    return this.#spec.wrapper === true
  }

  /** The words contain the code or the script. */
  get isComplete(): boolean {
    return this.#script !== null || (this.#codeGiven && this.#pending === null)
  }

  /** The operand that is a file with code. */
  get script(): W | null {
    return this.#codeGiven || this.#forcedStdin ? null : this.#script
  }

  get readsStdin(): CommandAnalysis<W>["readsStdin"] {
    const { stdin, shell } = this.#spec
    if (stdin !== true || this.#informs) return null
    const given = this.#script !== null || (shell !== true && this.#codeGiven)
    return this.#forcedStdin || !given ? { program: this.name, language: this.#spec.operand === "script" } : null
  }

  /** Returns false when the words that follow are data. */
  read(word: W): boolean {
    const { text } = word
    if (this.#pending !== null) {
      const isCode = this.#pending === "code"
      this.#pending = null
      if (isCode) this.#code(word)
      return !(isCode && this.#spec.last === true)
    }
    if (this.#spec.words?.includes(text) === true) this.#expectCode()
    else if (!this.#optionsEnded && /^[-+]./s.test(text)) this.#option(word)
    else return this.#operand(word)
    return true
  }

  #option(word: W): void {
    const { text } = word
    if (text === "--version" || text === "--help" || (this.#spec.shell !== true && /^-[VvhN]$/.test(text))) this.#informs = true
    if (text === "--") this.#optionsEnded = true
    else if (text.startsWith("--")) this.#longOption(word, text.slice(2))
    else this.#shortOptions(word, text)
  }

  #longOption(word: W, text: string): void {
    const [name, value] = splitAt(text, "=")
    const { long = [], longValues = [] } = this.#spec
    if (long.some((option) => option === name || (name.length > 3 && option.startsWith(name)))) {
      if (value === null) this.#expectCode()
      else this.#code(word)
    } else if (name.includes(UNKNOWN)) this.#code(word)
    else if (value !== null) return
    else if (longValues.includes(name)) this.#pending = "value"
    else this.#unknownOption = true
  }

  #shortOptions(word: W, text: string): void {
    const { letters = "", files = "", values = "", shell, operand } = this.#spec
    for (let i = 1; i < text.length; i++) {
      const letter = text[i]!
      const isLast = i === text.length - 1
      if (letter === UNKNOWN) return this.#code(word)
      if (operand === "names" && letter === "i") this.#codeGiven = true
      if (shell === true) {
        if (letter === "s") this.#forcedStdin = true
        if (letters.includes(letter)) this.#codeGiven = true
      } else if (letters.includes(letter) || files.includes(letter)) {
        if (
          isLast ||
          text
            .slice(i + 1)
            .split("")
            .every((other) => letters.includes(other))
        )
          this.#expectCode()
        else this.#code(word)
        return
      }
      if (values.includes(letter)) {
        if (isLast) this.#pending = "value"
        return
      }
    }
  }

  #operand(word: W): boolean {
    if (this.#unknownOption) {
      this.#unknownOption = false
      if (this.#spec.operand === "script" && isSelected(word.text)) this.#code(word)
      return true
    }
    const position = this.#operands++
    const { operand, from = 0, shell } = this.#spec
    switch (operand) {
      case undefined:
        if (this.#programFollows && isSelected(word.text)) this.#add(word, "program")
        this.#programFollows = position === 0 && this.#spec.subcommands?.includes(word.text) === true
        return true
      case "all":
        if (position >= from) this.#code(word)
        return true
      case "names":
        if (this.#codeGiven || word.text.startsWith(UNKNOWN) || /^[^=]*\[[^\]]*\0/.test(word.text)) this.#code(word)
        return true
      case "program":
        if (position === from && ASSIGNMENT.test(word.text)) {
          this.#operands--
          return true
        }
        if (position === from && isSelected(word.text)) this.#add(word, "program")
        this.runsVariable = position === from && word.text.includes(UNKNOWN)
        // An option whose value is unknown here may have shifted the operands, so that another program follows.
        return this.#spec.from !== undefined
      case "code":
        if (!this.#codeGiven) this.#code(word)
        return false
      case "script":
        if (shell !== true && this.#codeGiven) return false
        if (this.#forcedStdin) return false
        if (shell === true && this.#codeGiven) this.#code(word)
        else if (STDIN_NAMES.has(word.text)) this.#forcedStdin = true
        else if (isSelected(word.text)) this.#add(word, "script")
        this.#script = word
        return false
      default:
        return operand satisfies never
    }
  }

  #expectCode(): void {
    this.#codeGiven = true
    this.#pending = "code"
  }

  #code(word: W): void {
    this.#codeGiven = true
    if (word.text.includes(UNKNOWN)) this.#add(word, "code")
  }

  #add(word: W, use: CodeArgument<W>["use"]): void {
    this.#found.push({ word, program: this.name, use })
  }
}

const splitAt = (text: string, separator: string): [string, string | null] => {
  const at = text.indexOf(separator)
  return at === -1 ? [text, null] : [text.slice(0, at), text.slice(at + 1)]
}
