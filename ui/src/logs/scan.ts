// Goes through a whole log from its start, piece by piece, without keeping it: for searching, for the first error, and for the numbers
// of lines. Ends when it has found enough, at the end of the log, or when it is told to.

import { stripAnsi } from "./ansi.ts"
import { type Line, linesFrom, type Written, writtenAt } from "./lines.ts"
import type { LogPort } from "./log-port.ts"
import { type Landmark, PIECE_BYTES } from "./log-window.ts"

export interface Found {
  /** Of the line. */
  offset: number
  number: number
}

export interface Scan {
  found: readonly Found[]
  /** There are more than are kept. */
  more: boolean
  done: boolean
  /** Bytes so far, of so many. */
  at: number
  size: number
}

export const MOST_FOUND = 10_000

/** Of a line in lower case. */
const ERROR = /error|exception|traceback|fatal/

const landmarksOf = new WeakMap<LogPort, Landmark[]>()

/** The last place before a byte whose number is known, by any scan of this log. */
export const landmarkBefore = (port: LogPort, offset: number): Landmark =>
  landmarksOf.get(port)?.findLast((each) => each.offset <= offset) ?? { offset: 0, number: 1 }

interface Walk {
  signal: AbortSignal
  /** false: far enough. */
  see(lines: readonly Line[], firstNumber: number, progress: { at: number; size: number }): boolean | Promise<boolean>
}

/** Read at once: fewer questions than pieces that are shown. */
const SCAN_BYTES = 1 << 20
/** Near enough that one piece reaches from a landmark to the line that was found after it. */
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

/** Most lines have nothing to strip; of a million that is most of the time. */
const searched = ({ text }: Line): string => (text.includes(ESC) ? stripAnsi(text) : text).toLowerCase()

/** Lines that have the text in them, whatever its case. `tell` hears how far it is after each piece, and last that it is done. */
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
        if (found.length === MOST_FOUND) {
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

/** The first line that speaks of an error; without one the first that was written to stderr. */
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

/** Which of those found comes next from where one is; around the end. -1: none. */
export const nextFound = (found: readonly Found[], from: number | null, by: 1 | -1): number => {
  if (found.length === 0) return -1
  if (by === 1) {
    const next = found.findIndex((each) => from === null || each.offset > from)
    return next === -1 ? 0 : next
  }
  const before = found.findLastIndex((each) => from === null || each.offset < from)
  return before === -1 ? found.length - 1 : before
}
