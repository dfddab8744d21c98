// Reads the log of one attempt, running or ended: raw bytes, or lines with their time and stream. Memory is constant for logs of any
// size. Bytes without an index record (after a crash) count as stdout at the last known time.

import { type Chunk, chunkBytes, chunksInRange, findRecord, type LogStream, readChunks } from "./log-index.ts"
import { type LogFiles, logFiles } from "./log-files.ts"
import { LogWatcher } from "./log-watcher.ts"
import type { ObjectStore } from "../objects.ts"

export interface LogLine {
  at: number
  stream: LogStream
  line: string
  /** Set if the line continues: it is longer than 64 KiB, or its end is not written yet. */
  more?: true
}

export interface FollowOptions {
  /** First byte of the raw log; a negative offset counts from its end. */
  offset?: number
  /** Aborts when the task has ended. Without it, only the existing log is read. */
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

  /** `prefix`: prefix of the attempt. */
  constructor(objects: ObjectStore, prefix: string) {
    this.#objects = objects
    this.#prefix = prefix
    this.#files = logFiles(objects, prefix)
  }

  /** Returns 0 for a task without output. */
  size(): Promise<number> {
    return this.#files.size("log")
  }

  /** Reads a range of the raw log. `next`: offset of the following range. */
  async read(offset = 0, maxBytes = this.#files.readBytes): Promise<{ bytes: Uint8Array; offset: number; next: number }> {
    const start = await this.#resolveOffset(offset)
    const bytes = await this.#files.range("log", start, start + maxBytes)
    return { bytes, offset: start, next: start + bytes.byteLength }
  }

  /** Returns time and stream of the bytes [start, end). Bytes without a chunk belong to the chunk before them. */
  chunks(start: number, end: number): Promise<Chunk[]> {
    return chunksInRange(this.#files, start, end)
  }

  /** Yields the raw log in pieces. */
  async *bytes(options: FollowOptions = {}): AsyncGenerator<Uint8Array> {
    const watcher = new LogWatcher(this.#objects, this.#prefix, options.ended)
    try {
      let position = await this.#resolveOffset(options.offset ?? 0)
      for (;;) {
        const last = watcher.ended
        const { bytes, next } = await this.read(position)
        position = next
        if (bytes.byteLength > 0) yield bytes
        else if (last) return
        else await watcher.next()
      }
    } finally {
      watcher.close()
    }
  }

  async *lines(options: FollowOptions = {}): AsyncGenerator<LogLine> {
    const watcher = new LogWatcher(this.#objects, this.#prefix, options.ended)
    const open = { stdout: new PartialLine("stdout"), stderr: new PartialLine("stderr") }
    try {
      let position = await this.#resolveOffset(options.offset ?? 0)
      let record = await findRecord(this.#files, position)
      let at = 0
      for (;;) {
        const last = watcher.ended
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
        await watcher.next()
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
      watcher.close()
    }
  }

  /** Returns the last lines of the existing log. */
  async tailLines(count: number): Promise<LogLine[]> {
    const size = await this.size()
    for (let bytes = TAIL_BYTES; ; bytes *= 4) {
      const start = Math.max(0, size - bytes)
      const found: LogLine[] = []
      // Leaves out the first line if it begins before `start`.
      let whole = start === 0 || (await this.read(start - 1, 1)).bytes[0] === NEWLINE
      for await (const line of this.lines({ offset: start })) {
        if (whole) found.push(line)
        whole = true
        if (found.length > count) found.shift()
      }
      if (found.length >= count || start === 0 || bytes >= MAX_TAIL_BYTES) return found
    }
  }

  async #resolveOffset(offset: number): Promise<number> {
    return offset >= 0 ? offset : Math.max(0, (await this.size()) + offset)
  }
}

/** A line of one stream whose end was not read yet. */
class PartialLine {
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
      this.#append(bytes.subarray(start, end), at)
      if (this.#length === 0) this.#at = at // An empty line.
      yield this.#take(this.#length)
      start = end + 1
    }
    this.#append(bytes.subarray(start), at)
    while (this.#length > MAX_LINE) yield { ...this.#take(MAX_LINE), more: true }
  }

  /** Yields the part of the line that was read, without its end. */
  *flush(): Generator<LogLine> {
    const text = this.#length > 0 ? this.#take(this.#length, true) : null
    if (text !== null && text.line !== "") yield { ...text, more: true }
  }

  *end(): Generator<LogLine> {
    if (this.#length > 0) yield this.#take(this.#length)
  }

  #append(bytes: Uint8Array, at: number): void {
    if (bytes.byteLength === 0) return
    if (this.#length === 0) this.#at = at
    // Copies the bytes, because they may be a small part of a large buffer.
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

/** Returns `at`, or the start of the UTF-8 character that a cut at `at` would split. */
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
