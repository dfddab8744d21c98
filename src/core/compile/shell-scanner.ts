// Scans a shell script for `${{ … }}` and determines the syntax around each: words, quotes, heredocs, arithmetic, code. The caller
// supplies the replacement. Knows quotes, escapes, comments, `$( )`, backticks, `${ }`, `$(( ))`, heredocs and `case` of POSIX sh; does
// not check the script, which the shell does.

import { codeCommand, isCommandPrefix } from "./shell-words.ts"
import { readExpression } from "./templates.ts"

/** Syntax around an expression. */
export interface ExpressionPosition {
  syntax: "word" | "single_quotes" | "heredoc" | "arithmetic"
  /** The expression is inside double quotes, or inside syntax that needs none. */
  quoted: boolean
  /** The command that evaluates the word of the expression as code (`sh`, `eval`), or null. */
  codeCommand: string | null
}

/** Returns the shell text that replaces an expression. */
export type ReplaceExpression = (source: string, position: ExpressionPosition) => string

/** Commands: the script itself, `$( )`, backticks and subshells. */
interface CommandState {
  kind: "command"
  close: ")" | "`" | null
  codeCommand: string | null
  /** Complete words of the current simple command. */
  words: string[]
  /** The current word so far; null between words. */
  word: string | null
  /** `case` without its `esac`, in which `)` ends a pattern. */
  openCases: number
}

/** Inside double quotes. */
interface DoubleQuoteState {
  kind: "double_quotes"
  codeCommand: string | null
}

/** Inside `${ }`. */
interface ParameterState {
  kind: "parameter"
  codeCommand: string | null
  quoted: boolean
}

/** Inside `$(( ))`. */
interface ArithmeticState {
  kind: "arithmetic"
  codeCommand: string | null
  openParens: number
}

type State = CommandState | DoubleQuoteState | ParameterState | ArithmeticState

const commandState = (close: CommandState["close"], code: string | null): CommandState => ({
  kind: "command",
  close,
  codeCommand: code,
  words: [],
  word: null,
  openCases: 0,
})

/** Stands for the unknown value of an expression in a word. */
const VALUE = "\0"

export class ShellScanner {
  readonly #text: string
  readonly #replace: ReplaceExpression
  /** Nested syntax at the current position, innermost last. */
  readonly #states: State[] = [commandState(null, null)]
  /** Heredocs whose bodies begin after the current line. */
  readonly #heredocs: { delimiter: string; stripTabs: boolean }[] = []
  #at = 0
  #script = ""
  #unclosed = false

  constructor(text: string, replace: ReplaceExpression) {
    this.#text = text
    this.#replace = replace
  }

  /** Returns the script with all expressions replaced; `unclosed` when a `${{` has no `}}`. */
  scan(): { script: string; unclosed: boolean } {
    while (this.#at < this.#text.length) this.#step()
    return { script: this.#script, unclosed: this.#unclosed }
  }

  #step(): void {
    const state = this.#state
    if (this.#char === "\\") return this.#escape()
    if (this.#expression(state.kind === "arithmetic" ? "arithmetic" : "word") || this.#expansion(state)) return
    switch (state.kind) {
      case "command":
        return this.#inCommand(state)
      case "double_quotes":
        return this.#inDoubleQuotes()
      case "parameter":
        return this.#inParameter(state)
      case "arithmetic":
        return this.#inArithmetic(state)
      default:
        return state satisfies never
    }
  }

  // -- expressions -----------------------------------------------------------------------------------------------------------------

  /** Replaces an expression, or an escaped `$${{`, at the current position. Returns false when there is none. */
  #expression(syntax: ExpressionPosition["syntax"]): boolean {
    if (this.#startsWith("$${{")) {
      this.#addToWord("${{")
      this.#script += "${{"
      this.#at += 4
      return true
    }
    if (!this.#startsWith("${{")) return false
    const expression = readExpression(this.#text, this.#at)
    if (expression === null) {
      this.#unclosed = true
      this.#copy(this.#text.length - this.#at)
      return true
    }
    const state = this.#state
    this.#at = expression.end
    this.#script += this.#replace(expression.source, {
      syntax,
      quoted: isQuoted(state),
      codeCommand: codeCommandIn(state),
    })
    this.#addToWord(VALUE)
    return true
  }

  // -- states ----------------------------------------------------------------------------------------------------------------------

  #inCommand(state: CommandState): void {
    if (this.#char === state.close && !(state.close === ")" && state.openCases > 0)) {
      endWord(state)
      return this.#leave(1)
    }
    switch (this.#char) {
      case '"':
        return this.#enter({ kind: "double_quotes", codeCommand: codeCommandIn(state) }, 1)
      case "'":
        return this.#singleQuotes(false)
      case "#":
        return state.word === null ? this.#comment() : this.#copyToWord()
      case " ":
      case "\t":
      case ">":
        endWord(state)
        return this.#copy(1)
      case "\n":
        endCommand(state)
        this.#copy(1)
        return this.#heredocBodies()
      case ";":
      case "&":
      case "|":
      case ")":
        endCommand(state)
        return this.#copy(1)
      case "(":
        endCommand(state)
        this.#states.push(commandState(")", state.codeCommand))
        return this.#copy(1)
      case "<":
        return this.#inputRedirect(state)
      default:
        return this.#copyToWord()
    }
  }

  #inDoubleQuotes(): void {
    if (this.#char === '"') return this.#leave(1)
    this.#copyToWord()
  }

  #inParameter(state: ParameterState): void {
    if (this.#char === '"') return this.#enter({ kind: "double_quotes", codeCommand: codeCommandIn(state) }, 1)
    if (this.#char === "'" && !state.quoted) return this.#singleQuotes(false)
    if (this.#char === "}") return this.#leave(1)
    this.#copy(1)
  }

  #inArithmetic(state: ArithmeticState): void {
    if (this.#char === "(") state.openParens++
    if (this.#char === ")" && state.openParens-- <= 0) return this.#leave(this.#startsWith("))") ? 2 : 1)
    this.#copy(1)
  }

  // -- syntax ----------------------------------------------------------------------------------------------------------------------

  #escape(): void {
    const next = this.#text[this.#at + 1] ?? ""
    this.#addToWord(next === "\n" ? "" : next)
    this.#copy(2)
  }

  /** Enters an expansion or a `$'…'` at the current position. Returns false when there is none. */
  #expansion(state: State): boolean {
    const code = codeCommandIn(state)
    if (this.#startsWith("$((")) this.#enter({ kind: "arithmetic", codeCommand: code, openParens: 0 }, 3)
    else if (this.#startsWith("$(")) this.#enter(commandState(")", code), 2)
    else if (this.#startsWith("${")) this.#enter({ kind: "parameter", codeCommand: code, quoted: isQuoted(state) }, 2)
    else if (this.#char === "`" && !(state.kind === "command" && state.close === "`")) this.#enter(commandState("`", code), 1)
    else if (this.#startsWith("$'") && state.kind === "command") {
      this.#copy(1)
      this.#singleQuotes(true)
    } else return false
    return true
  }

  /** Copies a quoted text; in `$'…'` a backslash escapes the next character. */
  #singleQuotes(escapes: boolean): void {
    this.#addToWord("")
    this.#copy(1)
    while (this.#at < this.#text.length && this.#char !== "'") {
      if (this.#expression("single_quotes")) continue
      if (escapes && this.#char === "\\") this.#copy(2)
      else this.#copyToWord()
    }
    this.#copy(1)
  }

  #comment(): void {
    while (this.#at < this.#text.length && this.#char !== "\n") this.#copy(1)
  }

  #inputRedirect(state: CommandState): void {
    endWord(state)
    if (this.#startsWith("<<<")) return this.#copy(3)
    if (this.#startsWith("<<")) return this.#heredocStart()
    this.#copy(1)
  }

  /** Copies `<<EOF` or `<<-'EOF'` and notes the delimiter without its quotes. */
  #heredocStart(): void {
    const match = /^<<(-?)[ \t]*((?:\\.|'[^']*'|"[^"]*"|[^\s;&|<>()'"\\])+)/.exec(this.#text.slice(this.#at, this.#at + 300))
    if (match === null) return this.#copy(2)
    const [redirect, dash, quotedDelimiter] = match
    const delimiter = quotedDelimiter!.replace(
      /\\(.)|'([^']*)'|"([^"]*)"/g,
      (_, escaped?: string, single?: string, double?: string) => escaped ?? single ?? double ?? "",
    )
    this.#heredocs.push({ delimiter, stripTabs: dash === "-" })
    this.#copy(redirect.length)
  }

  #heredocBodies(): void {
    for (const { delimiter, stripTabs } of this.#heredocs.splice(0)) {
      while (this.#at < this.#text.length) {
        const newline = this.#text.indexOf("\n", this.#at)
        const line = this.#text.slice(this.#at, newline === -1 ? this.#text.length : newline)
        if ((stripTabs ? line.replace(/^\t+/, "") : line) === delimiter) {
          this.#copy(line.length + 1)
          break
        }
        const next = this.#at + line.length + 1
        while (this.#at < next && this.#at < this.#text.length) if (!this.#expression("heredoc")) this.#copy(1)
      }
    }
  }

  // -- position --------------------------------------------------------------------------------------------------------------------

  get #state(): State {
    return this.#states[this.#states.length - 1]!
  }

  get #char(): string {
    return this.#text[this.#at]!
  }

  #startsWith(prefix: string): boolean {
    return this.#text.startsWith(prefix, this.#at)
  }

  #copy(length: number): void {
    this.#script += this.#text.slice(this.#at, this.#at + length)
    this.#at += length
  }

  #copyToWord(): void {
    this.#addToWord(this.#char)
    this.#copy(1)
  }

  #enter(state: State, length: number): void {
    this.#addToWord("")
    this.#states.push(state)
    this.#copy(length)
  }

  #leave(length: number): void {
    this.#states.pop()
    this.#copy(length)
  }

  /** Adds to the current word of a command. Text in double quotes belongs to the word around them. */
  #addToWord(text: string): void {
    const state = this.#state
    const owner = state.kind === "double_quotes" ? this.#states[this.#states.length - 2]! : state
    if (owner.kind === "command") owner.word = (owner.word ?? "") + text
  }
}

const isQuoted = (state: State): boolean =>
  state.kind === "double_quotes" || state.kind === "arithmetic" || (state.kind === "parameter" && state.quoted)

const codeCommandIn = (state: State): string | null =>
  state.codeCommand ?? (state.kind === "command" ? codeCommand(state.words) : null)

const endWord = (state: CommandState): void => {
  if (state.word === null) return
  const isFirst = state.words.every(isCommandPrefix)
  if (isFirst && state.word === "case") state.openCases++
  if (isFirst && state.word === "esac") state.openCases = Math.max(0, state.openCases - 1)
  state.words.push(state.word)
  state.word = null
}

const endCommand = (state: CommandState): void => {
  endWord(state)
  state.words = []
}
