// Cuts lines out of bytes of a raw log. A line is what stands between two newlines, as a terminal shows it; its place is its first byte.
// A line that is longer than a piece is cut, so that every piece ends.

import { parseAnsi, PLAIN, type Style } from "./ansi.ts"

export interface Line {
  /** Of its first byte in the raw log: also its key. */
  readonly offset: number
  readonly text: string
  /** What the line before it left on. */
  readonly style: Style
}

/** Lines that follow each other, and the bytes [start, end) that they are. */
export interface Piece {
  readonly start: number
  readonly end: number
  readonly lines: readonly Line[]
}

const NEWLINE = 0x0a

/**
 * Lines of bytes that begin with a line at `offset`. A line at the end that is not over is left for the next piece, unless `last`, or
 * unless there is no other.
 */
export const linesFrom = (bytes: Uint8Array, offset: number, last: boolean): Piece => {
  const over = bytes.lastIndexOf(NEWLINE) + 1
  return piece(last || over === 0 ? bytes : bytes.subarray(0, over), offset)
}

/** Lines of bytes that end where a line ends. What began before `offset` is left for the piece before, unless there is nothing else. */
export const linesBefore = (bytes: Uint8Array, offset: number): Piece => {
  const newline = offset === 0 ? -1 : bytes.indexOf(NEWLINE)
  const begin = newline === -1 || newline === bytes.length - 1 ? 0 : newline + 1
  return piece(bytes.subarray(begin), offset + begin)
}

const piece = (bytes: Uint8Array, start: number): Piece => {
  const text = decoder.decode(bytes)
  const texts = text.endsWith("\n") ? text.slice(0, -1).split("\n") : text === "" ? [] : text.split("\n")
  const lines: Line[] = []
  let offset = start
  let style = PLAIN
  for (const each of texts) {
    lines.push({ offset, text: each.endsWith("\r") ? each.slice(0, -1) : each, style })
    if (each.includes("\u001b")) style = parseAnsi(each, style).end
    const newline = bytes.indexOf(NEWLINE, offset - start)
    offset = newline === -1 ? start + bytes.length : start + newline + 1
  }
  return { start, end: start + bytes.length, lines }
}

/** Bytes that are no text become U+FFFD. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

export interface Written {
  readonly offset: number
  readonly at: string
  readonly stream: "stdout" | "stderr"
}

/** When and to which stream the byte was written; `times` are in order. */
export const writtenAt = (times: readonly Written[], offset: number): Written | null => {
  let [low, high] = [0, times.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (times[middle]!.offset <= offset) low = middle + 1
    else high = middle
  }
  return times[low - 1] ?? null
}
