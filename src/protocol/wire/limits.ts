// Limits on a text before it is parsed, for parsing is where hostile documents bite: deep nesting overflows the stack, aliases
// multiply. One pass over the tokens, no tree.

import { CST, Lexer } from "yaml"

export const MAX_BYTES = 1024 * 1024
export const MAX_DEPTH = 64
const MAX_ALIASES = 100
/** A task takes 20 to 40. Beyond, parsing takes seconds, whatever the text is. */
const MAX_TOKENS = 400_000
const MAX_LINES = 200_000

export interface LimitProblem {
  message: string
  offset: number
}

export const sizeProblem = (text: string): string | null => {
  const bytes = Buffer.byteLength(text)
  return bytes > MAX_BYTES ? `the definition has ${bytes} bytes; at most ${MAX_BYTES} (1 MiB) are taken` : null
}

const OPENS = new Set(["flow-map-start", "flow-seq-start"])
const CLOSES = new Set(["flow-map-end", "flow-seq-end"])
const BLANK = new Set(["space", "newline", "comment", "byte-order-mark", "doc-mode", "flow-error-end", "doc-start", "doc-end"])
/** What follows these on the same line may be a collection of its own. */
const NESTS = new Set(["seq-item-ind", "explicit-key-ind"])

/** The first limit that a YAML text of allowed size breaks, or null. */
export const limitProblem = (text: string): LimitProblem | null => {
  const columns: number[] = []
  let flow = 0
  let aliases = 0
  let tokens = 0
  let lines = 0
  let offset = 0
  let lineStart = 0
  let mayNest = true
  for (const token of new Lexer().lex(text)) {
    if (++tokens > MAX_TOKENS) return { message: `more than ${MAX_TOKENS} words and signs`, offset }
    const type = CST.tokenType(token)
    const width = type === "doc-mode" || type === "flow-error-end" || type === "scalar" ? 0 : token.length
    const column = offset - lineStart
    if (type === "alias" && ++aliases > MAX_ALIASES) return { message: `more than ${MAX_ALIASES} aliases`, offset }
    if (type !== null && OPENS.has(type)) flow++
    else if (type !== null && CLOSES.has(type)) flow = Math.max(0, flow - 1)
    if (flow === 0 && mayNest && (type === null || !BLANK.has(type))) {
      while (columns.length > 0 && columns[columns.length - 1]! >= column) columns.pop()
      columns.push(column)
      mayNest = false
    }
    if (columns.length + flow > MAX_DEPTH) return { message: `nested more than ${MAX_DEPTH} levels deep`, offset }
    if (type !== null && NESTS.has(type)) mayNest = true
    offset += width
    const newline = token.lastIndexOf("\n")
    if (newline !== -1) {
      lines += token === "\n" ? 1 : token.split("\n").length - 1
      if (lines > MAX_LINES) return { message: `more than ${MAX_LINES} lines`, offset }
      lineStart = offset - (token.length - newline - 1)
      mayNest = true
    }
  }
  return null
}
