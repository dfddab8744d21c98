// State of the scanner of shell scripts at a position (the nested syntax around it), and its result.

import type { Word } from "./code-arguments.ts"

/** Syntax around an expression. */
export interface ExpressionPosition {
  syntax: "word" | "single_quotes" | "heredoc" | "arithmetic"
  /** The expression is inside double quotes, or inside syntax that needs none. */
  quoted: boolean
}

/** Where a script uses a value: an expression or a variable. */
export type ValueUse = { expr: string } | { variable: string }

/** A word of a command. `from`, `to`: the uses of values in it, by their numbers. */
export interface ShellWord extends Word {
  from: number
  to: number
  /** Number of expressions at the beginning of the word, without other text before them. */
  leading: number
}

export interface SimpleCommand {
  words: ShellWord[]
  /** Files and texts that become its standard input: `< file`, `<<< text`. */
  inputs: ShellWord[]
  /** Set when a heredoc is its standard input; `expands`: its body contains expansions. */
  heredoc: { expands: boolean } | null
  /** Number of the first use of a value that may reach its standard input through a pipe, and of the first that cannot; null: no pipe. */
  pipedFrom: number | null
  from: number
}

export interface ScannedScript {
  script: string
  commands: SimpleCommand[]
  uses: ValueUse[]
  /** A `${{` has no `}}`. */
  unclosed: boolean
  /** The script nests deeper than the scanner follows. */
  tooDeep: boolean
}

/** Words that end a compound command. */
export const COMPOUND_ENDS = new Set(["}", "done", "fi", "esac"])

/** Maximum nesting of `$( )`, quotes and other syntax. */
export const MAX_DEPTH = 100

/** Returns the shell text that replaces an expression. */
export type ReplaceExpression = (source: string, position: ExpressionPosition) => string

/** Commands: the script itself, `$( )`, backticks and subshells. */
export interface CommandState {
  kind: "command"
  close: ")" | "`" | null
  /** The current simple command. */
  command: SimpleCommand
  /** The current word so far; null between words. */
  word: ShellWord | null
  /** Numbers of the first use of a value in the state, and in the current pipeline. */
  from: number
  pipelineFrom: number
  /** Like `pipedFrom` of a command, for commands inside of a compound command. */
  fedFrom: number | null
  /** The current command follows a compound one, such as `( … )` or `{ … }`. */
  afterCompound: boolean
  /** Set after `<` or `>`: the next word is a file, not an argument. */
  redirect: "input" | "other" | null
  /** Every word of the current command so far is a prefix, such as `if`. */
  atStart: boolean
  /** `case` without its `esac`, in which `)` ends a pattern. */
  openCases: number
}

/** Inside double quotes. */
export interface DoubleQuoteState {
  kind: "double_quotes"
}

/** Inside `${ }`. */
export interface ParameterState {
  kind: "parameter"
  quoted: boolean
  /** Position after `${`. */
  start: number
}

/** Inside `$(( ))`, `(( ))` or `$[ ]`. */
export interface ArithmeticState {
  kind: "arithmetic"
  close: ")" | "]"
  openParens: number
}

export type State = CommandState | DoubleQuoteState | ParameterState | ArithmeticState

export const newCommand = (from: number, pipedFrom: number | null): SimpleCommand => ({
  words: [],
  inputs: [],
  heredoc: null,
  from,
  pipedFrom,
})

export const commandState = (close: CommandState["close"], from: number, fedFrom: number | null): CommandState => ({
  kind: "command",
  close,
  command: newCommand(from, fedFrom),
  from,
  fedFrom,
  pipelineFrom: from,
  afterCompound: false,
  word: null,
  redirect: null,
  atStart: true,
  openCases: 0,
})

export const isFor = ({ words }: SimpleCommand): boolean => words.length === 1 && words[0]!.text === "for"

export const isQuoted = (state: State): boolean =>
  state.kind === "double_quotes" || state.kind === "arithmetic" || (state.kind === "parameter" && state.quoted)
