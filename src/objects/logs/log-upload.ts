// Uploads a log to a remote store while it is written to a local file. New chunks are uploaded as a part within a second, so that
// readers can follow; at the end the log becomes `log` and `log.idx`, and the parts and the local file are removed. A part holds whole
// chunks. Parts that a crash left are read as they are.

import { createReadStream, existsSync } from "node:fs"
import { rm, stat } from "node:fs/promises"
import { indexKey, type LogPart, logKey, newPart, parsePart, partsPrefix, RECORD_BYTES } from "./log-keys.ts"
import { fitRecords } from "./log-index.ts"
import { notifyReaders } from "./log-watcher.ts"
import type { ObjectStore, ObjectRange } from "../objects.ts"
import { readObjectRange, readRangeOrEmpty } from "../shared/read-range.ts"

const POLL_MS = 500
/** Maximum number of raw bytes of a part, which is held in memory. */
const PART_BYTES = 8 << 20
const PART_RECORDS = 32_768
/** Mean size from which parts are joined inside the store; a log of smaller parts is uploaded again. */
const JOIN_BYTES = 4 << 20
/** Maximum number of parts that a store joins. A longer log stays in parts. */
const MAX_PARTS = 9000

export class LogUpload {
  readonly #objects: ObjectStore
  readonly #prefix: string
  readonly #path: string
  readonly #pollMs: number
  readonly #parts: LogPart[] = []
  #bytes = 0
  #records = 0
  #timer: NodeJS.Timeout | null = null
  #uploading: Promise<void> = Promise.resolve()
  #closed = false

  /** `path`: path of the raw log; its index has the suffix `.idx`. The files need not exist yet. */
  constructor(objects: ObjectStore, prefix: string, path: string, pollMs = POLL_MS) {
    this.#objects = objects
    this.#prefix = prefix
    this.#path = path
    this.#pollMs = pollMs
    this.#schedule()
  }

  /** Stores the complete log. Call once, when nothing more is written. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#uploading
    const size = (await stat(this.#path).catch(() => null))?.size ?? 0
    if (size > 0) await this.#finish(size)
    await this.discard()
  }

  /** Removes the local files. */
  async discard(): Promise<void> {
    await Promise.all([this.#path, `${this.#path}.idx`].map((file) => rm(file, { force: true })))
  }

  async #finish(size: number): Promise<void> {
    const { length } = this.#parts
    const joins = this.#objects.join !== undefined && length > 0 && this.#bytes / length >= JOIN_BYTES
    if (joins || length > MAX_PARTS) while (await this.#uploadNext(size)) continue
    if (length > MAX_PARTS) return
    const index = `${this.#path}.idx`
    if (existsSync(index)) await this.#objects.putStream(indexKey(this.#prefix), createReadStream(index))
    if (joins) {
      const ranges = this.#parts.map(({ key, bytes }) => ({ key, start: 0, end: bytes }))
      await this.#objects.join!(logKey(this.#prefix), ranges)
    } else await this.#objects.putStream(logKey(this.#prefix), createReadStream(this.#path))
    notifyReaders(this.#objects, this.#prefix)
    if (this.#parts.length > 0) await this.#objects.deletePrefix(partsPrefix(this.#prefix))
  }

  #schedule(): void {
    this.#timer = setTimeout(() => {
      this.#uploading = this.#uploadNew().finally(() => {
        if (!this.#closed) this.#schedule()
      })
    }, this.#pollMs)
  }

  /** Ignores errors: the next poll, or `close`, retries. */
  async #uploadNew(): Promise<void> {
    try {
      while (!this.#closed && (await this.#uploadNext())) continue
    } catch {
      // The local file still holds the log.
    }
  }

  /** Returns false if there is nothing new. `finalSize`: size of the raw log when it does not grow any more. */
  async #uploadNext(finalSize?: number): Promise<boolean> {
    const records = await readRangeOrEmpty(`${this.#path}.idx`, this.#records * RECORD_BYTES, PART_RECORDS * RECORD_BYTES)
    const { count, bytes } = fitRecords(records, PART_BYTES)
    // The end of a log may have bytes without a record, after a crash of the writer.
    const length = count > 0 || finalSize === undefined ? bytes : Math.min(PART_BYTES, finalSize - this.#bytes)
    if (length === 0) return false
    const raw = await readRangeOrEmpty(this.#path, this.#bytes, length)
    if (raw.byteLength < length) return false
    const part = newPart(this.#prefix, this.#parts.length + 1, length, count)
    await this.#objects.put(part.key, Buffer.concat([raw, records.subarray(0, part.indexBytes)]))
    this.#parts.push(part)
    this.#bytes += length
    this.#records += count
    notifyReaders(this.#objects, this.#prefix)
    return true
  }
}

/**
 * Joins the parts of a log that a worker sent, without its local file, in bounded memory. A log of a single part, or of too many parts,
 * stays in parts; readers handle both.
 */
export const joinParts = async (objects: ObjectStore, prefix: string): Promise<void> => {
  const parts: LogPart[] = []
  for (let page = [""]; page.length > 0;) {
    page = await objects.list(partsPrefix(prefix), { after: parts.at(-1)?.key ?? "" })
    parts.push(...page.map(parsePart))
    if (parts.length > MAX_PARTS) return
  }
  if (parts.length < 2) return
  const ranges = parts.map(({ key, bytes }) => ({ key, start: 0, end: bytes }))
  const records = parts.map(({ key, bytes, indexBytes }) => ({ key, start: bytes, end: bytes + indexBytes }))
  await objects.putStream(indexKey(prefix), readRanges(objects, records))
  const large = parts.reduce((sum, { bytes }) => sum + bytes, 0) / parts.length >= JOIN_BYTES
  if (objects.join !== undefined && large) await objects.join(logKey(prefix), ranges)
  else await objects.putStream(logKey(prefix), readRanges(objects, ranges))
  notifyReaders(objects, prefix)
  await objects.deletePrefix(partsPrefix(prefix))
}

async function* readRanges(objects: ObjectStore, ranges: readonly ObjectRange[]): AsyncGenerator<Uint8Array> {
  for (const range of ranges) if (range.end > range.start) yield await readObjectRange(objects, range)
}
