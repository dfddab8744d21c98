// Limits on the text of a definition, checked before it is parsed: deep nesting would overflow the parser's stack, and aliases
// multiply. Reads tokens only, without building a tree.

import { CST, Lexer } from "yaml"

export const MAX_BYTES = 1024 * 1024
export const MAX_DEPTH = 64
const MAX_ALIASES = 100
/** A task has 20 to 40 tokens. Parsing more than this takes seconds. */
const MAX_TOKENS = 400_000
const MAX_LINES = 200_000

export interface LimitProblem {
  message: string
  offset: number
}

export const TOO_DEEP = `is nested more than ${MAX_DEPTH} levels deep`

export const sizeProblem = (text: string): string | null => {
  const bytes = Buffer.byteLength(text)
  return bytes > MAX_BYTES ? `the definition has ${bytes} bytes; at most ${MAX_BYTES} (1 MiB) are allowed` : null
}

const OPENS = new Set(["flow-map-start", "flow-seq-start"])
const CLOSES = new Set(["flow-map-end", "flow-seq-end"])
const BLANK = new Set(["space", "newline", "comment", "byte-order-mark", "doc-mode", "flow-error-end", "doc-start", "doc-end"])
/** Tokens after which a collection may begin on the same line. */
const NESTS = new Set(["seq-item-ind", "explicit-key-ind"])

/** Returns the first limit that a YAML text exceeds, or null. */
export const limitProblem = (text: string): LimitProblem | null => {
  const depth = new NestingDepth()
  let aliases = 0
  let tokens = 0
  let lines = 0
  let offset = 0
  let lineStart = 0
  for (const token of new Lexer().lex(text)) {
    const type = CST.tokenType(token)
    if (++tokens > MAX_TOKENS) return { message: `the definition has more than ${MAX_TOKENS} tokens`, offset }
    if (type === "alias" && ++aliases > MAX_ALIASES) {
      return { message: `the definition has more than ${MAX_ALIASES} aliases`, offset }
    }
    depth.add(type, offset - lineStart)
    if (depth.value > MAX_DEPTH) return { message: TOO_DEEP, offset }
    offset += type === "doc-mode" || type === "flow-error-end" || type === "scalar" ? 0 : token.length
    const newline = token.lastIndexOf("\n")
    if (newline === -1) continue
    lines += token === "\n" ? 1 : token.split("\n").length - 1
    if (lines > MAX_LINES) return { message: `the definition has more than ${MAX_LINES} lines`, offset }
    lineStart = offset - (token.length - newline - 1)
    depth.startLine()
  }
  return null
}

/** Counts how deeply the current token is nested: by indentation, and by brackets. */
class NestingDepth {
  readonly #columns: number[] = []
  #brackets = 0
  #mayNest = true

  get value(): number {
    return this.#columns.length + this.#brackets
  }

  startLine(): void {
    this.#mayNest = true
  }

  add(type: ReturnType<typeof CST.tokenType>, column: number): void {
    if (type !== null && OPENS.has(type)) this.#brackets++
    else if (type !== null && CLOSES.has(type)) this.#brackets = Math.max(0, this.#brackets - 1)
    if (this.#brackets === 0 && this.#mayNest && (type === null || !BLANK.has(type))) {
      while (this.#columns.length > 0 && this.#columns.at(-1)! >= column) this.#columns.pop()
      this.#columns.push(column)
      this.#mayNest = false
    }
    if (type !== null && NESTS.has(type)) this.#mayNest = true
  }
}
