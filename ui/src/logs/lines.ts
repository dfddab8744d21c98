// Splits bytes of a raw log into lines. A line is identified by the offset of its first byte.
// A line that is longer than a chunk is split.

import { parseAnsi, PLAIN, type Style } from "./ansi.ts"

export interface Line {
  /** Offset of its first byte in the raw log; also its key. */
  readonly offset: number
  readonly text: string
  /** Style at the end of the previous line. */
  readonly style: Style
}

/** Consecutive lines and their byte range [start, end). */
export interface Piece {
  readonly start: number
  readonly end: number
  readonly lines: readonly Line[]
}

const NEWLINE = 0x0a

/**
 * Splits bytes that begin with a line at `offset`. An incomplete last line is left for the next chunk, unless `last` is set or
 * it is the only line.
 */
export const linesFrom = (bytes: Uint8Array, offset: number, last: boolean): Piece => {
  const over = bytes.lastIndexOf(NEWLINE) + 1
  return piece(last || over === 0 ? bytes : bytes.subarray(0, over), offset)
}

/**
 * Splits bytes that end at the end of a line. A line that began before `offset` is left for the previous chunk, unless it is the only
 * one.
 */
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

/** Invalid bytes become U+FFFD. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

export interface Written {
  readonly offset: number
  readonly at: string
  readonly stream: "stdout" | "stderr"
}

/** Returns when and to which stream a byte was written; `times` are sorted. */
export const writtenAt = (times: readonly Written[], offset: number): Written | null => {
  let [low, high] = [0, times.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (times[middle]!.offset <= offset) low = middle + 1
    else high = middle
  }
  return times[low - 1] ?? null
}
