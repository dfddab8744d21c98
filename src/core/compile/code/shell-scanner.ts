// Scans a shell script for `${{ … }}` and determines the syntax around each: words, quotes, heredocs, arithmetic. Also returns the simple
// commands of the script. The caller supplies the replacement. Knows quotes, escapes, comments, `$( )`, backticks, `${ }`, `$(( ))`,
// heredocs and `case` of POSIX sh, and here-strings, `(( ))` and `<( )` of bash; does not check the script, which the shell does. Takes
// time proportional to the script.

import { isCommandPrefix, UNKNOWN } from "./code-arguments.ts"
import {
  type ArithmeticState,
  type CommandState,
  commandState,
  COMPOUND_ENDS,
  type ExpressionPosition,
  isFor,
  isQuoted,
  MAX_DEPTH,
  newCommand,
  type ParameterState,
  type ReplaceExpression,
  type ScannedScript,
  type ShellWord,
  type SimpleCommand,
  type State,
  type ValueUse,
} from "./shell-states.ts"
import { readExpression } from "./templates.ts"

export class ShellScanner {
  readonly #text: string
  readonly #replace: ReplaceExpression
  /** Nested syntax at the current position, innermost last. */
  readonly #states: State[] = [commandState(null, 0, null)]
  /** Heredocs whose bodies begin after the current line. */
  readonly #heredocs: { delimiter: string; stripTabs: boolean; quoted: boolean; command: SimpleCommand }[] = []
  readonly #commands: SimpleCommand[] = []
  readonly #uses: ValueUse[] = []
  #at = 0
  #script = ""
  #unclosed = false
  #tooDeep = false

  constructor(text: string, replace: ReplaceExpression) {
    this.#text = text
    this.#replace = replace
  }

  /** Returns the script with all expressions replaced, and its commands. */
  scan(): ScannedScript {
    while (this.#at < this.#text.length) this.#step()
    while (this.#states.length > 0) {
      const state = this.#states.pop()!
      if (state.kind === "command") this.#endCommand(state)
    }
    return {
      script: this.#script,
      commands: this.#commands,
      uses: this.#uses,
      unclosed: this.#unclosed,
      tooDeep: this.#tooDeep,
    }
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
    const open = this.#at
    this.#at = expression.end
    const evaluated = state.kind === "parameter" && this.#isEvaluated(state, open)
    this.#script += this.#replace(expression.source, { syntax: evaluated ? "arithmetic" : syntax, quoted: isQuoted(state) })
    if (syntax === "heredoc") this.#uses.push({ expr: expression.source })
    else this.#addValue({ expr: expression.source })
    return true
  }

  /** Returns true in `${x[…]}` and `${x:…}`, where bash evaluates the text as arithmetic. */
  #isEvaluated({ start }: ParameterState, at: number): boolean {
    const before = this.#text.slice(start, Math.min(at, start + 200))
    return !/^[!#]?[A-Za-z0-9_@*?$!-]*?(?::?[-=+?]|[#%/^,])/.test(before)
  }

  // -- states ----------------------------------------------------------------------------------------------------------------------

  #inCommand(state: CommandState): void {
    if (this.#char === state.close && !(state.close === ")" && state.openCases > 0)) {
      this.#endCommand(state)
      return this.#leave(1)
    }
    switch (this.#char) {
      case '"':
        return this.#enter({ kind: "double_quotes" }, 1)
      case "'":
        return this.#singleQuotes(false)
      case "#":
        return state.word === null ? this.#comment() : this.#copyToWord()
      case " ":
      case "\t":
        this.#endWord(state)
        return this.#copy(1)
      case ">":
      case "<":
        return this.#redirect(state)
      case "\n":
        this.#endPipeline(state)
        this.#copy(1)
        return this.#heredocBodies()
      case "|":
        return this.#pipe(state)
      case "&":
        if (this.#startsWith("&>")) return this.#copy(1)
        this.#endPipeline(state)
        return this.#copy(1)
      case ";":
      case ")":
        this.#endPipeline(state)
        return this.#copy(1)
      case "(":
        if (this.#startsWith("((") && state.word === null && (state.atStart || isFor(state.command))) {
          return this.#push({ kind: "arithmetic", close: ")", openParens: 0 }, 2)
        }
        this.#endCommand(state)
        state.afterCompound = true
        return this.#push(commandState(")", this.#uses.length, state.command.pipedFrom), 1)
      default:
        return this.#copyToWord()
    }
  }

  #inDoubleQuotes(): void {
    if (this.#char === '"') return this.#leave(1)
    this.#copyToWord()
  }

  #inParameter(state: ParameterState): void {
    if (this.#char === '"') return this.#enter({ kind: "double_quotes" }, 1)
    if (this.#char === "'" && !state.quoted) return this.#singleQuotes(false)
    if (this.#char === "}") return this.#leave(1)
    this.#copy(1)
  }

  #inArithmetic(state: ArithmeticState): void {
    if (this.#char === (state.close === ")" ? "(" : "[")) state.openParens++
    if (this.#char === state.close && state.openParens-- <= 0) return this.#leave(this.#startsWith("))") ? 2 : 1)
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
    if (this.#startsWith("$((")) this.#enter({ kind: "arithmetic", close: ")", openParens: 0 }, 3)
    else if (this.#startsWith("$(")) this.#substitution(")", 2)
    else if (this.#startsWith("${")) this.#parameter(state)
    else if (this.#startsWith("$[")) this.#enter({ kind: "arithmetic", close: "]", openParens: 0 }, 2)
    else if (this.#char === "`" && !(state.kind === "command" && state.close === "`")) this.#substitution("`", 1)
    else if (this.#startsWith("$'") && state.kind === "command") {
      this.#copy(1)
      this.#singleQuotes(true)
    } else return this.#char === "$" && this.#variable()
    return true
  }

  /** Enters a command whose output, or name, becomes part of the word. */
  #substitution(close: ")" | "`", length: number): void {
    const isOutput = this.#char === ">"
    this.#addToWord(UNKNOWN)
    this.#push(commandState(close, this.#uses.length, isOutput ? 0 : null), length)
  }

  #parameter(state: State): void {
    const name = /^[!#]?([A-Za-z_][A-Za-z0-9_]{0,200}|[0-9@*]+)/.exec(this.#text.slice(this.#at + 2, this.#at + 210))?.[1]
    this.#addValue({ variable: name ?? "" })
    this.#push({ kind: "parameter", quoted: isQuoted(state), start: this.#at + 2 }, 2)
  }

  /** Copies `$NAME` at the current position. Returns false when there is none. */
  #variable(): boolean {
    const name = /^(?:[A-Za-z_][A-Za-z0-9_]{0,200}|[0-9@*])/.exec(this.#text.slice(this.#at + 1, this.#at + 203))?.[0]
    if (name === undefined) return false
    this.#addValue({ variable: name })
    this.#copy(name.length + 1)
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

  #redirect(state: CommandState): void {
    if (this.#startsWith("<(") || this.#startsWith(">(")) return this.#substitution(")", 2)
    if (state.word !== null && /^\d{1,3}$/.test(state.word.text)) state.word = null
    this.#endWord(state)
    const operator = ["<<<", "<&", "<>", ">&", ">>", ">|"].find((text) => this.#startsWith(text)) ?? this.#char
    if (operator === "<" && this.#startsWith("<<")) return this.#heredocStart(state.command)
    state.redirect = operator === "<" || operator === "<<<" || operator === "<>" ? "input" : "other"
    this.#copy(operator.length)
  }

  /** Copies `<<EOF` or `<<-'EOF'` and notes the delimiter without its quotes. */
  #heredocStart(command: SimpleCommand): void {
    const match = /^<<(-?)[ \t]*((?:\\.|'[^']*'|"[^"]*"|[^\s;&|<>()'"\\])+)/.exec(this.#text.slice(this.#at, this.#at + 300))
    if (match === null) return this.#copy(2)
    const [redirect, dash, quotedDelimiter] = match
    const delimiter = quotedDelimiter!.replace(
      /\\(.)|'([^']*)'|"([^"]*)"/g,
      (_, escaped?: string, single?: string, double?: string) => escaped ?? single ?? double ?? "",
    )
    command.heredoc = { expands: false }
    this.#heredocs.push({ delimiter, stripTabs: dash === "-", quoted: delimiter !== quotedDelimiter, command })
    this.#copy(redirect.length)
  }

  #heredocBodies(): void {
    for (const { delimiter, stripTabs, quoted, command } of this.#heredocs.splice(0)) {
      while (this.#at < this.#text.length) {
        const newline = this.#text.indexOf("\n", this.#at)
        const line = this.#text.slice(this.#at, newline === -1 ? this.#text.length : newline)
        if ((stripTabs ? line.replace(/^\t+/, "") : line) === delimiter) {
          this.#copy(line.length + 1)
          break
        }
        if (!quoted && /[$`]/.test(line)) command.heredoc = { expands: true }
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
    this.#push(state, length)
  }

  #push(state: State, length: number): void {
    if (this.#states.length >= MAX_DEPTH) {
      this.#tooDeep = true
      return this.#copy(this.#text.length - this.#at)
    }
    this.#states.push(state)
    this.#copy(length)
  }

  #leave(length: number): void {
    this.#states.pop()
    this.#copy(length)
  }

  /** Adds to the current word of a command. Text in double quotes belongs to the word around them. */
  #addToWord(text: string): ShellWord | null {
    const state = this.#state
    const owner = state.kind === "double_quotes" ? this.#states[this.#states.length - 2]! : state
    if (owner.kind !== "command") return null
    owner.word ??= { text: "", from: this.#uses.length, to: this.#uses.length, leading: 0 }
    owner.word.text += text
    return owner.word
  }

  #addValue(use: ValueUse): void {
    const word = this.#addToWord(UNKNOWN)
    if (word !== null && "expr" in use && word.text.length === word.leading + 1) word.leading++
    this.#uses.push(use)
  }

  #endWord(state: CommandState): void {
    const { word, command, redirect } = state
    if (word === null) return
    state.word = null
    state.redirect = null
    word.to = this.#uses.length
    if (redirect !== null) {
      if (redirect === "input") command.inputs.push(word)
      return
    }
    if (state.atStart && word.text === "case") state.openCases++
    if (state.atStart && word.text === "esac") state.openCases = Math.max(0, state.openCases - 1)
    if (!isCommandPrefix(word.text)) state.atStart = false
    command.words.push(word)
  }

  #endCommand(state: CommandState): void {
    this.#endWord(state)
    const { words, inputs, heredoc } = state.command
    if (words.length > 0 || inputs.length > 0 || heredoc !== null) this.#commands.push(state.command)
    if (words[0] !== undefined && COMPOUND_ENDS.has(words[0].text)) state.afterCompound = true
    if (words[0] !== undefined && isCommandPrefix(words[0].text)) state.fedFrom ??= state.command.pipedFrom
    state.command = newCommand(this.#uses.length, state.fedFrom)
    Object.assign(state, { redirect: null, atStart: true })
  }

  #endPipeline(state: CommandState): void {
    this.#endCommand(state)
    state.pipelineFrom = this.#uses.length
    state.afterCompound = false
  }

  /** Ends the command before `|`; `||` ends the pipeline. The values of a compound command are not known: all before it count. */
  #pipe(state: CommandState): void {
    if (this.#startsWith("||")) {
      this.#endPipeline(state)
      return this.#copy(2)
    }
    this.#endCommand(state)
    state.command.pipedFrom = state.afterCompound
      ? state.from
      : Math.min(state.pipelineFrom, state.fedFrom ?? state.pipelineFrom)
    this.#copy(this.#startsWith("|&") ? 2 : 1)
  }
}
