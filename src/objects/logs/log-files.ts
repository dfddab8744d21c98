// Reads the raw bytes and the index of a log, from whole objects or from the parts that log-upload.ts uploads. A range may be shorter
// than requested where a part ends, but never ends in the middle of a chunk.

import { indexKey, type LogPart, logKey, parsePart, partsPrefix } from "./log-keys.ts"
import type { ObjectStore } from "../objects.ts"

export type LogFile = "log" | "index"

export interface LogFiles {
  /** Size of one read; larger for remote stores. */
  readonly readBytes: number
  /** Returns 0 if there is no log. */
  size(file: LogFile): Promise<number>
  /** Returns the bytes [start, end), fewer at the end; none if there is no log. */
  range(file: LogFile, start: number, end: number): Promise<Uint8Array>
}

export const logFiles = (objects: ObjectStore, prefix: string): LogFiles =>
  objects.localPath === undefined ? new PartFiles(objects, prefix) : new WholeFiles(objects, prefix)

const EMPTY = new Uint8Array()
const PAGE_SIZE = 1000
const LOCAL_READ_BYTES = 256 << 10
const REMOTE_READ_BYTES = 2 << 20

class WholeFiles implements LogFiles {
  readonly readBytes = LOCAL_READ_BYTES
  readonly #objects: ObjectStore
  readonly #keys: Record<LogFile, string>

  constructor(objects: ObjectStore, prefix: string) {
    this.#objects = objects
    this.#keys = { log: logKey(prefix), index: indexKey(prefix) }
  }

  async size(file: LogFile): Promise<number> {
    return (await this.#objects.size(this.#keys[file])) ?? 0
  }

  async range(file: LogFile, start: number, end: number): Promise<Uint8Array> {
    return (await this.#objects.getRange(this.#keys[file], start, end)) ?? EMPTY
  }
}

/** A part with its offsets in both files. */
interface PositionedPart extends LogPart {
  from: Record<LogFile, number>
  to: Record<LogFile, number>
}

class PartFiles implements LogFiles {
  readonly readBytes = REMOTE_READ_BYTES
  readonly #objects: ObjectStore
  readonly #prefix: string
  readonly #whole: WholeFiles
  /** True if the log is in whole objects now. */
  #joined = false
  #parts: PositionedPart[] = []

  constructor(objects: ObjectStore, prefix: string) {
    this.#objects = objects
    this.#prefix = prefix
    this.#whole = new WholeFiles(objects, prefix)
  }

  async size(file: LogFile): Promise<number> {
    await this.#refresh()
    return this.#joined ? this.#whole.size(file) : (this.#parts.at(-1)?.to[file] ?? 0)
  }

  async range(file: LogFile, start: number, end: number): Promise<Uint8Array> {
    for (;;) {
      if (this.#joined) return this.#whole.range(file, start, end)
      const part = this.#find(file, start)
      if (part === undefined) {
        if (!(await this.#refresh())) return EMPTY
        continue
      }
      // The index of a part follows its raw bytes.
      const shift = (file === "log" ? 0 : part.bytes) - part.from[file]
      const bytes = await this.#objects.getRange(part.key, start + shift, Math.min(end, part.to[file]) + shift)
      if (bytes !== null) return bytes
      // The part was joined just now, or removed with its run.
      if (!(await this.#refresh())) return EMPTY
    }
  }

  #find(file: LogFile, at: number): PositionedPart | undefined {
    let [low, high] = [0, this.#parts.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#parts[middle]!.to[file] <= at) low = middle + 1
      else high = middle
    }
    return this.#parts[low]
  }

  /** Returns true if there is more to read than before. */
  async #refresh(): Promise<boolean> {
    if (this.#joined) return false
    if (this.#parts.length > 0 && (await this.#listParts())) return true
    this.#joined = (await this.#objects.size(logKey(this.#prefix))) !== null
    return this.#joined || (this.#parts.length === 0 && (await this.#listParts()))
  }

  async #listParts(): Promise<boolean> {
    const before = this.#parts.length
    for (;;) {
      const after = this.#parts.at(-1)
      const keys = await this.#objects.list(partsPrefix(this.#prefix), {
        limit: PAGE_SIZE,
        ...(after !== undefined && { after: after.key }),
      })
      for (const key of keys) this.#addPart(parsePart(key))
      if (keys.length < PAGE_SIZE) return this.#parts.length > before
    }
  }

  #addPart(part: LogPart): void {
    const from = this.#parts.at(-1)?.to ?? { log: 0, index: 0 }
    const to = { log: from.log + part.bytes, index: from.index + part.indexBytes }
    this.#parts.push({ ...part, from, to })
  }
}
