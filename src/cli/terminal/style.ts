// Colours and styles of the terminal. A line is a list of spans. Spans are truncated before styles are added, so that no
// escape sequence is cut.

import { textWidth, truncate } from "./text.ts"

const CODES = {
  bold: ["\u001b[1m", "\u001b[22m"],
  dim: ["\u001b[2m", "\u001b[22m"],
  red: ["\u001b[31m", "\u001b[39m"],
  green: ["\u001b[32m", "\u001b[39m"],
  yellow: ["\u001b[33m", "\u001b[39m"],
  blue: ["\u001b[34m", "\u001b[39m"],
  cyan: ["\u001b[36m", "\u001b[39m"],
} as const

export type Style = keyof typeof CODES
export type Span = string | readonly [text: string, style: Style]

const textAndStyle = (span: Span): readonly [string, Style | null] => (typeof span === "string" ? [span, null] : span)

/** Joins spans into one text of at most `width` columns. */
export const paint = (spans: readonly Span[], colour: boolean, width = Infinity): string => {
  let left = width
  let line = ""
  for (const span of spans) {
    if (left <= 0) break
    const [text, style] = textAndStyle(span)
    const shown = truncate(text, left)
    left -= textWidth(shown)
    line += style === null || !colour || shown === "" ? shown : `${CODES[style][0]}${shown}${CODES[style][1]}`
    if (shown !== text) break
  }
  return line
}

/** Returns true for a terminal that supports colour, unless NO_COLOR is set (https://no-color.org). */
export const wantsColour = (stream: { isTTY?: boolean }, env: { [name: string]: string | undefined }): boolean =>
  stream.isTTY === true && (env["NO_COLOR"] ?? "") === "" && env["TERM"] !== "dumb"
