// The loaded part of a log: consecutive chunks, extended at one end and dropped at the other, so that a log of any
// length takes the same memory. One read runs at a time. Views subscribe to immutable snapshots.
//
// Line numbers are shown only where they are known: from the start of the log, or after a scan of everything before.

import { type Line, linesBefore, linesFrom, type Piece, type Written, writtenAt } from "./lines.ts"
import type { LogPort, Part } from "./log-port.ts"

export const PIECE_BYTES = 256 << 10
const MAX_PIECES = 12
const MAX_LINES = 100_000
const NEWLINE = 0x0a

export interface Snapshot {
  readonly lines: readonly Line[]
  readonly times: readonly Written[]
  /** Loaded byte range [start, end). */
  readonly start: number
  readonly end: number
  readonly size: number
  /** Number of the first line; null if unknown. */
  readonly firstNumber: number | null
  /** Nothing has been read yet. */
  readonly opening: boolean
  readonly error: unknown
  /** Number of times that another part was opened, which invalidates the scroll position. */
  readonly opened: number
  /** The line to show after opening; null for the end. */
  readonly target: number | null
}

interface Held extends Piece {
  times: readonly Written[]
}

const NONE: Snapshot = {
  lines: [],
  times: [],
  start: 0,
  end: 0,
  size: 0,
  firstNumber: null,
  opening: true,
  error: null,
  opened: 0,
  target: null,
}

/** A line with a known number and offset. */
export interface Landmark {
  offset: number
  number: number
}

export class LogWindow {
  readonly #port: LogPort
  readonly #listeners = new Set<() => void>()
  #pieces: readonly Held[] = []
  #snapshot = NONE
  #busy: AbortController | null = null
  #closed = false
  /** The user follows the end: if the log grows faster than it is read, the middle is skipped. */
  following = false

  constructor(port: LogPort) {
    this.#port = port
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  readonly snapshot = (): Snapshot => this.#snapshot

  close(): void {
    this.#closed = true
    this.#busy?.abort()
  }

  openEnd(): Promise<void> {
    return this.#open(null, async (signal) => {
      const part = await this.#port.read(-PIECE_BYTES, PIECE_BYTES, signal)
      return { piece: linesBefore(part.bytes, part.offset), part, firstNumber: part.offset === 0 ? 1 : null }
    })
  }

  /** Opens the log at a line. `known` is an earlier line with a known number. */
  openAt(offset: number, known: Landmark | null = { offset: 0, number: 1 }): Promise<void> {
    const begin = known !== null && offset - known.offset < PIECE_BYTES ? known : null
    return this.#open(offset, async (signal) => {
      const part = await this.#port.read(begin?.offset ?? offset, PIECE_BYTES, signal)
      const piece = linesFrom(part.bytes, part.offset, reachesEnd(part))
      return { piece, part, firstNumber: begin?.number ?? (part.offset === 0 ? 1 : null) }
    })
  }

  /** Opens the log at the first line after a byte offset. */
  openNear(offset: number): Promise<void> {
    return this.#open(offset, async (signal) => {
      const part = await this.#port.read(offset, PIECE_BYTES, signal)
      const begin = part.offset === 0 ? 0 : part.bytes.indexOf(NEWLINE) + 1
      const piece = linesFrom(part.bytes.subarray(begin), part.offset + begin, reachesEnd(part))
      return { piece, part, firstNumber: part.offset === 0 ? 1 : null }
    })
  }

  /** Extends one end, if there is more and no read is running. */
  async more(where: "before" | "after"): Promise<void> {
    const { start, end, size, opening } = this.#snapshot
    if (opening || this.#busy !== null || (where === "before" ? start === 0 : end >= size)) return
    await this.#work(async (signal) => (where === "before" ? this.#before(start, signal) : this.#after(end, signal)))
  }

  /** Checks whether the log has grown. */
  async poll(): Promise<void> {
    const { end, size, opening, error } = this.#snapshot
    if (this.#busy !== null) return
    if (opening || error !== null) return this.openEnd()
    const atEnd = end >= size
    if (!atEnd && this.following) return this.openEnd()
    await this.#work(async (signal) => {
      if (atEnd) return this.#after(this.#openLine() ?? end, signal)
      const part = await this.#port.read(size, 1, signal)
      this.#set({ size: part.size })
    })
  }

  /** Returns the offset of an incomplete last line, which is read again with the new bytes. */
  #openLine(): number | null {
    const last = this.#pieces.at(-1)
    const line = last?.lines.at(-1)
    return last === undefined || line === undefined || this.#over ? null : line.offset
  }

  /** Reports whether the last loaded byte is a newline. */
  #over = true

  async #before(start: number, signal: AbortSignal): Promise<void> {
    const from = Math.max(0, start - PIECE_BYTES)
    const part = await this.#port.read(from, start - from, signal)
    const held = await this.#timed(linesBefore(part.bytes, from), signal)
    const { firstNumber } = this.#snapshot
    this.#pieces = [held, ...this.#pieces]
    const number = held.start === 0 ? 1 : firstNumber === null ? null : firstNumber - held.lines.length
    while (this.#tooMuch()) {
      this.#pieces = this.#pieces.slice(0, -1)
      this.#over = true
    }
    this.#set({ size: Math.max(part.size, this.#snapshot.size), firstNumber: number })
  }

  async #after(from: number, signal: AbortSignal): Promise<void> {
    const part = await this.#port.read(from, PIECE_BYTES, signal)
    const { end, firstNumber } = this.#snapshot
    if (part.bytes.byteLength === 0 || (part.offset < end && part.offset + part.bytes.byteLength <= end)) {
      return this.#set({ size: part.size })
    }
    const held = await this.#timed(linesFrom(part.bytes, part.offset, reachesEnd(part)), signal)
    this.#over = part.bytes[held.end - held.start - 1] === NEWLINE
    this.#pieces = joined(part.offset < end ? cut(this.#pieces, part.offset) : this.#pieces, held)
    let number = firstNumber
    while (this.#tooMuch()) {
      if (number !== null) number += this.#pieces[0]!.lines.length
      this.#pieces = this.#pieces.slice(1)
    }
    this.#set({ size: part.size, firstNumber: number })
  }

  #tooMuch(): boolean {
    const lines = this.#pieces.reduce((sum, piece) => sum + piece.lines.length, 0)
    return this.#pieces.length > 2 && (this.#pieces.length > MAX_PIECES || lines > MAX_LINES)
  }

  async #open(
    target: number | null,
    read: (signal: AbortSignal) => Promise<{ piece: Piece; part: Part; firstNumber: number | null }>,
  ): Promise<void> {
    this.#closed = false
    this.#busy?.abort()
    this.#busy = null
    await this.#work(async (signal) => {
      const { piece, part, firstNumber } = await read(signal)
      if (signal.aborted) return
      this.#pieces = piece.lines.length === 0 ? [] : [{ ...piece, times: [] }]
      this.#over = part.bytes.byteLength === 0 || part.bytes[piece.end - part.offset - 1] === NEWLINE
      const { opened } = this.#snapshot
      this.#set({ size: part.size, firstNumber, opening: false, opened: opened + 1, target }, piece)
      // Show the lines before their times are loaded.
      if (piece.lines.length === 0) return
      const timed = await this.#timed(piece, signal)
      this.#pieces = [timed]
      this.#set({})
    })
  }

  async #timed(piece: Piece, signal: AbortSignal): Promise<Held> {
    const length = piece.end - piece.start
    return { ...piece, times: length === 0 ? [] : await this.#port.times(piece.start, length, signal) }
  }

  async #work(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const busy = new AbortController()
    this.#busy = busy
    try {
      await work(busy.signal)
    } catch (error) {
      if (!busy.signal.aborted) this.#set({ error })
    } finally {
      if (this.#busy === busy) this.#busy = null
    }
  }

  #set(change: Partial<Snapshot>, { start, end }: { start: number; end: number } = this.#snapshot): void {
    if (this.#closed) return
    const pieces = this.#pieces
    this.#snapshot = {
      ...this.#snapshot,
      error: null,
      ...change,
      lines: pieces.length === 1 ? pieces[0]!.lines : pieces.flatMap((piece) => piece.lines),
      times: pieces.length === 1 ? pieces[0]!.times : pieces.flatMap((piece) => piece.times),
      start: pieces[0]?.start ?? start,
      end: pieces.at(-1)?.end ?? end,
    }
    for (const listener of this.#listeners) listener()
  }
}

const reachesEnd = ({ bytes, offset, size }: Part): boolean => offset + bytes.byteLength >= size

/** Removes the lines that are read again. */
const cut = (pieces: readonly Held[], offset: number): readonly Held[] => {
  const last = pieces.at(-1)!
  const kept = { ...last, end: offset, lines: last.lines.filter((line) => line.offset < offset) }
  return kept.lines.length === 0 ? pieces.slice(0, -1) : [...pieces.slice(0, -1), kept]
}

/** Merges small chunks, so that a log that grows line by line does not consist of thousands. */
const joined = (pieces: readonly Held[], next: Held): readonly Held[] => {
  const last = pieces.at(-1)
  if (last === undefined || next.end - last.start > PIECE_BYTES) return [...pieces, next]
  const lines = [...last.lines, ...next.lines]
  return [...pieces.slice(0, -1), { start: last.start, end: next.end, lines, times: [...last.times, ...next.times] }]
}

export const writtenOf = (snapshot: Snapshot, line: Line): Written | null => writtenAt(snapshot.times, line.offset)

/** Returns the index of the line at a byte offset; -1 if it is not loaded. */
export const lineAt = (lines: readonly Line[], offset: number): number => {
  let [low, high] = [0, lines.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (lines[middle]!.offset < offset) low = middle + 1
    else high = middle
  }
  return lines[low]?.offset === offset ? low : -1
}
