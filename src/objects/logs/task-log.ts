// Reads the log of one attempt, live or ended: raw bytes, or lines with their time and stream. Constant memory on logs of any size.
// Bytes that the index does not cover (after a crash) count as stdout at the last known time.

import { type Chunk, chunkBytes, chunksInRange, findRecord, type LogStream, readChunks } from "./log-index.ts"
import { type LogFiles, logFiles } from "./log-files.ts"
import { LogWatcher } from "./log-watcher.ts"
import type { ObjectStore } from "../objects.ts"

export interface LogLine {
  at: number
  stream: LogStream
  line: string
  /** The line goes on: it is longer than 64 KiB, or its end has not been written yet. */
  more?: true
}

export interface FollowOptions {
  /** Byte of the raw log to begin at; negative: from its end. */
  offset?: number
  /** Follow the log until this is aborted, which says that the task has ended. Without it: what is there now. */
  ended?: AbortSignal
}

const MAX_LINE = 65_536
const TAIL_BYTES = 65_536
const MAX_TAIL_BYTES = 4 << 20
const NEWLINE = 0x0a

export class TaskLog {
  readonly #objects: ObjectStore
  readonly #prefix: string
  readonly #files: LogFiles

  /** `prefix`: that of the attempt. */
  constructor(objects: ObjectStore, prefix: string) {
    this.#objects = objects
    this.#prefix = prefix
    this.#files = logFiles(objects, prefix)
  }

  /** 0 for a task that wrote nothing. */
  size(): Promise<number> {
    return this.#files.size("log")
  }

  /** A piece of the raw log. `next` is the offset to go on from. */
  async read(offset = 0, maxBytes = this.#files.readBytes): Promise<{ bytes: Uint8Array; offset: number; next: number }> {
    const start = await this.#place(offset)
    const bytes = await this.#files.range("log", start, start + maxBytes)
    return { bytes, offset: start, next: start + bytes.byteLength }
  }

  /** When bytes [start, end) were written, and to which stream. Bytes that are in no chunk belong to the one before. */
  chunks(start: number, end: number): Promise<Chunk[]> {
    return chunksInRange(this.#files, start, end)
  }

  /** The raw log, piece by piece. */
  async *bytes(options: FollowOptions = {}): AsyncGenerator<Uint8Array> {
    const wake = new LogWatcher(this.#objects, this.#prefix, options.ended)
    try {
      let position = await this.#place(options.offset ?? 0)
      for (;;) {
        const last = wake.ended
        const { bytes, next } = await this.read(position)
        position = next
        if (bytes.byteLength > 0) yield bytes
        else if (last) return
        else await wake.next()
      }
    } finally {
      wake.close()
    }
  }

  async *lines(options: FollowOptions = {}): AsyncGenerator<LogLine> {
    const wake = new LogWatcher(this.#objects, this.#prefix, options.ended)
    const open = { stdout: new OpenLine("stdout"), stderr: new OpenLine("stderr") }
    try {
      let position = await this.#place(options.offset ?? 0)
      let record = await findRecord(this.#files, position)
      let at = 0
      for (;;) {
        const last = wake.ended
        const chunks = await readChunks(this.#files, record)
        record += chunks.length
        for await (const { chunk, bytes } of chunkBytes(this.#files, chunks, position)) {
          position = chunk.offset + chunk.length
          at = chunk.at
          yield* open[chunk.stream].add(bytes, at)
        }
        if (chunks.length > 0) continue
        if (last) break
        yield* open.stdout.flush()
        yield* open.stderr.flush()
        await wake.next()
      }
      for (;;) {
        const { bytes, next } = await this.read(position)
        if (bytes.byteLength === 0) break
        position = next
        yield* open.stdout.add(bytes, at)
      }
      yield* open.stdout.end()
      yield* open.stderr.end()
    } finally {
      wake.close()
    }
  }

  /** The last lines of what is there now. */
  async tailLines(count: number): Promise<LogLine[]> {
    const size = await this.size()
    for (let bytes = TAIL_BYTES; ; bytes *= 4) {
      const start = Math.max(0, size - bytes)
      const found: LogLine[] = []
      // The first line may have begun before `start`: then it is left out.
      let whole = start === 0 || (await this.read(start - 1, 1)).bytes[0] === NEWLINE
      for await (const line of this.lines({ offset: start })) {
        if (whole) found.push(line)
        whole = true
        if (found.length > count) found.shift()
      }
      if (found.length >= count || start === 0 || bytes >= MAX_TAIL_BYTES) return found
    }
  }

  async #place(offset: number): Promise<number> {
    return offset >= 0 ? offset : Math.max(0, (await this.size()) + offset)
  }
}

/** A stream's line of which only the beginning has been seen. */
class OpenLine {
  readonly #stream: LogStream
  #pieces: Uint8Array[] = []
  #length = 0
  #at = 0

  constructor(stream: LogStream) {
    this.#stream = stream
  }

  *add(bytes: Uint8Array, at: number): Generator<LogLine> {
    let start = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
      this.#keep(bytes.subarray(start, end), at)
      if (this.#length === 0) this.#at = at // an empty line
      yield this.#take(this.#length)
      start = end + 1
    }
    this.#keep(bytes.subarray(start), at)
    while (this.#length > MAX_LINE) yield { ...this.#take(MAX_LINE), more: true }
  }

  /** What is there of the line, though its end is not. */
  *flush(): Generator<LogLine> {
    const text = this.#length > 0 ? this.#take(this.#length, true) : null
    if (text !== null && text.line !== "") yield { ...text, more: true }
  }

  *end(): Generator<LogLine> {
    if (this.#length > 0) yield this.#take(this.#length)
  }

  #keep(bytes: Uint8Array, at: number): void {
    if (bytes.byteLength === 0) return
    if (this.#length === 0) this.#at = at
    // A copy: the reader's window is large, and this may be a small part of it.
    this.#pieces.push(bytes.slice())
    this.#length += bytes.byteLength
  }

  #take(length: number, more = length < this.#length): LogLine {
    const all = Buffer.concat(this.#pieces)
    const cut = more ? characterStart(all, length) : length
    this.#pieces = cut < all.length ? [all.subarray(cut)] : []
    this.#length = all.length - cut
    return { at: this.#at, stream: this.#stream, line: all.toString("utf8", 0, cut) }
  }
}

/** `at`, or up to three bytes before it: where the character that it would cut begins. */
const characterStart = (bytes: Uint8Array, at: number): number => {
  for (let i = at - 1; i >= Math.max(0, at - 4); i--) {
    const byte = bytes[i]!
    if (byte < 0x80) return at
    if (byte < 0xc0) continue
    const width = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2
    return i + width > at ? i : at
  }
  return at
}
