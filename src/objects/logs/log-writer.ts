// Writes the log of an attempt as native/log-file.c does: raw bytes, then their index record. Writes whole lines of a stream together,
// and a partial line after 250 ms or 64 KiB. Creates the files with the first byte.

import { closeSync, fstatSync, mkdirSync, openSync, writeSync } from "node:fs"
import { constants } from "node:os"
import { dirname } from "node:path"
import { isBlankByte, LastLineBuffer } from "./last-line.ts"
import { MAX_LOG_BYTES, RECORD_BYTES } from "./log-keys.ts"

const MAX_PARTIAL_BYTES = 65_536
const PARTIAL_MS = 250
const NEWLINE = 0x0a

/** Position of a line of stdout in the raw log. */
export interface LastLine {
  offset: number
  length: number
  /** True if chunks of stderr interrupt the line. */
  split: boolean
}

interface Pending {
  bytes: Buffer
  timer: NodeJS.Timeout | null
}

const NO_LINE: LastLine = { offset: 0, length: 0, split: false }

export class LogWriter {
  readonly #path: string
  readonly #pending: [Pending, Pending] = [
    { bytes: Buffer.alloc(0), timer: null },
    { bytes: Buffer.alloc(0), timer: null },
  ]
  #files: { log: number; index: number } | null = null
  /** The line of stdout whose end is not written yet. */
  #open: LastLine = NO_LINE
  #openBlank = true
  /** Last complete non-blank line of stdout. */
  last: LastLine = NO_LINE
  size = 0
  /**
   * Error number of a failed write, or of a log that was removed; the rest of the log is dropped then, because a full disk must not
   * stop the task.
   */
  errno = 0
  readonly #maxBytes: number
  /** True after `close`: other files may have the descriptors since then. */
  #closed = false
  /** The last line of stdout since the log is full; null while it is not. */
  #dropped: LastLineBuffer | null = null

  /** A log of more than `maxBytes` ends with a note and the last line of stdout, which may be the output of the task. */
  constructor(path: string, maxBytes = MAX_LOG_BYTES) {
    this.#path = path
    this.#maxBytes = maxBytes
  }

  /** Adds output. `stream`: 1 for stdout, 2 for stderr. `at`: time of the output in epoch milliseconds. */
  add(stream: 1 | 2, data: Buffer, at = Date.now()): void {
    const pending = this.#pending[stream - 1]!
    const bytes = pending.bytes.length > 0 ? Buffer.concat([pending.bytes, data]) : data
    const lineBytes = bytes.lastIndexOf(NEWLINE) + 1
    const written = bytes.length - lineBytes >= MAX_PARTIAL_BYTES ? bytes.length : lineBytes
    if (written > 0) {
      if (pending.timer !== null) clearTimeout(pending.timer)
      pending.timer = null
      this.#write(stream, bytes.subarray(0, written), at)
    }
    pending.bytes = Buffer.from(bytes.subarray(written))
    if (pending.bytes.length > 0) pending.timer ??= setTimeout(() => this.#flush(stream), PARTIAL_MS)
  }

  /** Drops what is added later. A second call does nothing. */
  close(): void {
    if (this.#closed) return
    this.#flush(1)
    this.#flush(2)
    if (this.#dropped !== null && this.#dropped.bytes.length > 0) this.#append(1, this.#dropped.bytes, Date.now())
    if (this.#open.length > 0 && !this.#openBlank) this.last = this.#open
    this.#closed = true
    if (this.#files === null) return
    if (this.errno === 0 && fstatSync(this.#files.log).nlink === 0) this.errno = constants.errno.ENOENT
    closeSync(this.#files.log)
    closeSync(this.#files.index)
  }

  #flush(stream: 1 | 2): void {
    const pending = this.#pending[stream - 1]!
    if (pending.timer !== null) clearTimeout(pending.timer)
    pending.timer = null
    if (pending.bytes.length > 0) this.#write(stream, pending.bytes, Date.now())
    pending.bytes = Buffer.alloc(0)
  }

  #write(stream: 1 | 2, bytes: Buffer, at: number): void {
    if (this.#dropped === null && this.size + bytes.length > this.#maxBytes) {
      this.#append(2, Buffer.from(fullNote(this.#maxBytes)), at)
      // The end of an open line will not be written.
      this.#dropped = new LastLineBuffer({ skip: this.#open.length > 0 })
      if (this.#open.length > 0) this.last = this.#open = NO_LINE
    }
    if (this.#dropped === null) this.#append(stream, bytes, at)
    else if (stream === 1) this.#dropped.add(bytes)
  }

  #append(stream: 1 | 2, bytes: Buffer, at: number): void {
    if (this.errno !== 0 || this.#closed) return
    const record = Buffer.alloc(RECORD_BYTES)
    record.writeBigUInt64LE(BigInt(this.size), 0)
    record.writeBigUInt64LE(BigInt(at), 8)
    record.writeUInt32LE(bytes.length, 16)
    record.writeUInt32LE(stream, 20)
    try {
      this.#files ??= this.#create()
      writeAll(this.#files.log, bytes)
      writeAll(this.#files.index, record)
    } catch (error) {
      const errno = error instanceof Error && "errno" in error ? Number(error.errno) : 0
      this.errno = Math.abs(errno) || constants.errno.EIO
      return
    }
    if (stream === 1) this.#trackLastLine(bytes, this.size)
    this.size += bytes.length
  }

  #create(): { log: number; index: number } {
    mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 })
    return { log: openSync(this.#path, "a", 0o600), index: openSync(`${this.#path}.idx`, "a", 0o600) }
  }

  /** Updates the position of the last non-blank line, searching backwards through bytes that were written at `offset`. */
  #trackLastLine(bytes: Buffer, offset: number): void {
    const end = bytes.lastIndexOf(NEWLINE)
    for (let stop = end; stop >= 0;) {
      const start = stop === 0 ? 0 : bytes.lastIndexOf(NEWLINE, stop - 1) + 1
      const continues = start === 0 && this.#open.length > 0
      if (!isBlank(bytes.subarray(start, stop)) || (continues && !this.#openBlank)) {
        this.last = continues ? this.#extendOpen(offset, stop) : { offset: offset + start, length: stop - start, split: false }
        break
      }
      stop = start - 1
    }
    if (end >= 0) this.#open = NO_LINE
    const rest = bytes.subarray(end + 1)
    if (rest.length === 0) return
    if (this.#open.length === 0) {
      this.#open = { offset: offset + end + 1, length: rest.length, split: false }
      this.#openBlank = isBlank(rest)
    } else {
      this.#open = this.#extendOpen(offset, rest.length)
      this.#openBlank &&= isBlank(rest)
    }
  }

  /** Returns the open line with `length` more bytes at `offset`. */
  #extendOpen(offset: number, length: number): LastLine {
    const split = this.#open.split || this.#open.offset + this.#open.length !== offset
    return { offset: this.#open.offset, length: this.#open.length + length, split }
  }
}

const fullNote = (maxBytes: number): string =>
  `\nork: the log is longer than ${Math.floor(maxBytes / 2 ** 20)} MiB: the rest is dropped, except for the last line of stdout\n`

const isBlank = (bytes: Buffer): boolean => bytes.every(isBlankByte)

const writeAll = (file: number, bytes: Buffer): void => {
  for (let done = 0; done < bytes.length;) done += writeSync(file, bytes, done)
}
