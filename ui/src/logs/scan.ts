// Scans a whole log from its start in chunks without keeping it: for searching, for the first error, and for line
// numbers. Stops when it has found enough, at the end of the log, or when aborted.

import { stripAnsi } from "./ansi.ts"
import { type Line, linesFrom, type Written, writtenAt } from "./lines.ts"
import type { LogPort } from "./log-port.ts"
import { type Landmark, PIECE_BYTES } from "./log-window.ts"

export interface Found {
  /** Offset of the line. */
  offset: number
  number: number
}

export interface Scan {
  found: readonly Found[]
  /** There are more matches than are kept. */
  more: boolean
  done: boolean
  /** Scanned bytes and total bytes. */
  at: number
  size: number
}

export const MAX_FOUND = 10_000

/** Matches a line in lower case. */
const ERROR = /error|exception|traceback|fatal/

const landmarksOf = new WeakMap<LogPort, Landmark[]>()

/** Returns the last known line number before a byte offset, from any scan of this log. */
export const landmarkBefore = (port: LogPort, offset: number): Landmark =>
  landmarksOf.get(port)?.findLast((each) => each.offset <= offset) ?? { offset: 0, number: 1 }

interface Walk {
  signal: AbortSignal
  /** Returns false to stop. */
  see(lines: readonly Line[], firstNumber: number, progress: { at: number; size: number }): boolean | Promise<boolean>
}

/** Bytes per read; larger than a shown chunk, for fewer requests. */
const SCAN_BYTES = 1 << 20
/** Distance between landmarks, so that one chunk reaches from a landmark to a match after it. */
const LANDMARK_BYTES = PIECE_BYTES / 2

const walk = async (port: LogPort, { signal, see }: Walk): Promise<void> => {
  const landmarks: Landmark[] = landmarksOf.get(port) ?? [{ offset: 0, number: 1 }]
  landmarksOf.set(port, landmarks)
  let number = 1
  for (let at = 0; ;) {
    const part = await port.read(at, SCAN_BYTES, signal)
    const piece = linesFrom(part.bytes, at, at + part.bytes.byteLength >= part.size)
    for (const [i, { offset }] of piece.lines.entries()) {
      if (offset >= landmarks.at(-1)!.offset + LANDMARK_BYTES) landmarks.push({ offset, number: number + i })
    }
    const goOn = await see(piece.lines, number, { at: piece.end, size: part.size })
    if (!goOn || signal.aborted || piece.end >= part.size || part.bytes.byteLength === 0) return
    number += piece.lines.length
    at = piece.end
  }
}

const ESC = "\u001b"

/** Skips the stripping for lines without escapes, which saves most of the time for a million lines. */
const searched = ({ text }: Line): string => (text.includes(ESC) ? stripAnsi(text) : text).toLowerCase()

/** Finds lines that contain the text, ignoring case. Calls `tell` with the progress after each chunk and at the end. */
export const searchLog = async (
  port: LogPort,
  text: string,
  signal: AbortSignal,
  tell: (scan: Scan) => void,
): Promise<void> => {
  const wanted = text.toLowerCase()
  const found: Found[] = []
  let scan: Scan = { found, more: false, done: false, at: 0, size: 0 }
  await walk(port, {
    signal,
    see: (lines, firstNumber, progress) => {
      for (const [i, line] of lines.entries()) {
        if (!searched(line).includes(wanted)) continue
        if (found.length === MAX_FOUND) {
          scan = { ...scan, more: true }
          break
        }
        found.push({ offset: line.offset, number: firstNumber + i })
      }
      scan = { ...scan, ...progress, found: [...found] }
      tell(scan)
      return !scan.more
    },
  })
  if (!signal.aborted) tell({ ...scan, done: true })
}

/** Finds the first line that mentions an error, otherwise the first line on stderr. */
export const firstError = async (port: LogPort, signal: AbortSignal): Promise<Found | null> => {
  let spoken: Found | null = null
  let stderr: Found | null = null
  await walk(port, {
    signal,
    see: async (lines, firstNumber) => {
      const place = (i: number): Found | null => (i === -1 ? null : { offset: lines[i]!.offset, number: firstNumber + i })
      spoken = place(lines.findIndex((line) => ERROR.test(searched(line))))
      if (spoken === null && stderr === null && lines.length > 0) {
        const times = await timesOf(port, lines, signal)
        stderr = place(lines.findIndex((line) => writtenAt(times, line.offset)?.stream === "stderr"))
      }
      return spoken === null
    },
  })
  return spoken ?? stderr
}

const timesOf = (port: LogPort, lines: readonly Line[], signal: AbortSignal): Promise<readonly Written[]> => {
  const from = lines[0]!.offset
  return port.times(from, lines.at(-1)!.offset - from + 1, signal)
}

/** Returns the index of the next match, wrapping around; -1 without matches. */
export const nextFound = (found: readonly Found[], from: number | null, by: 1 | -1): number => {
  if (found.length === 0) return -1
  if (by === 1) {
    const next = found.findIndex((each) => from === null || each.offset > from)
    return next === -1 ? 0 : next
  }
  const before = found.findLastIndex((each) => from === null || each.offset < from)
  return before === -1 ? found.length - 1 : before
}
