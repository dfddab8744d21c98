// Uploads a log that is being written to a local file, for stores that lie elsewhere: what is new goes up as a part at most a second after it
// was written, so that it can be read at once; at the end all of it becomes `log` and `log.idx`, and the parts and the local file
// are removed. A part holds whole chunks. Parts that a crash left unjoined are read as they are.

import { createReadStream, existsSync } from "node:fs"
import { rm, stat } from "node:fs/promises"
import { indexKey, type LogPart, logKey, newPart, parsePart, partsPrefix, RECORD_BYTES } from "./log-keys.ts"
import { notifyReaders } from "./log-watcher.ts"
import type { ObjectStore, ObjectRange } from "../objects.ts"
import { readRangeOrEmpty } from "../shared/read-range.ts"

const LOOK_MS = 500
/** Of the raw bytes of a part, which passes through memory. */
const PART_BYTES = 8 << 20
const PART_RECORDS = 32_768
/** Parts of this size and more are joined inside of the store; a log of many small ones is sent again. */
const JOIN_BYTES = 4 << 20
/** Most that a store joins. A longer log stays in parts. */
const MAX_PARTS = 9000

export class LogUpload {
  readonly #objects: ObjectStore
  readonly #prefix: string
  readonly #path: string
  readonly #lookMs: number
  readonly #parts: LogPart[] = []
  #bytes = 0
  #records = 0
  #timer: NodeJS.Timeout | null = null
  #working: Promise<void> = Promise.resolve()
  #closed = false

  /** `path`: the raw log; its index lies beside it as `.idx`. Neither needs to be there yet. */
  constructor(objects: ObjectStore, prefix: string, path: string, lookMs = LOOK_MS) {
    this.#objects = objects
    this.#prefix = prefix
    this.#path = path
    this.#lookMs = lookMs
    this.#plan()
  }

  /** Nothing more is written: resolves when all of it is stored. Call once. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    await this.#working
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
      const pieces = this.#parts.map(({ key, bytes }) => ({ key, start: 0, end: bytes }))
      await this.#objects.join!(logKey(this.#prefix), pieces)
    } else await this.#objects.putStream(logKey(this.#prefix), createReadStream(this.#path))
    notifyReaders(this.#objects, this.#prefix)
    if (this.#parts.length > 0) await this.#objects.deletePrefix(partsPrefix(this.#prefix))
  }

  #plan(): void {
    this.#timer = setTimeout(() => {
      this.#working = this.#look().finally(() => {
        if (!this.#closed) this.#plan()
      })
    }, this.#lookMs)
  }

  /** What cannot be stored now is tried again by the next look, and at the end. */
  async #look(): Promise<void> {
    try {
      while (!this.#closed && (await this.#uploadNext())) continue
    } catch {
      // Nothing is lost: the file is still there.
    }
  }

  /** Gives false when there is nothing new. `size`: that of the raw log, which does not grow any more. */
  async #uploadNext(size?: number): Promise<boolean> {
    const records = await readRangeOrEmpty(`${this.#path}.idx`, this.#records * RECORD_BYTES, PART_RECORDS * RECORD_BYTES)
    const { count, bytes } = fit(records)
    // What a crash left without a record counts too.
    const length = count > 0 || size === undefined ? bytes : Math.min(PART_BYTES, size - this.#bytes)
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
 * Makes one log of parts whose local file is not here (a worker sent them), and removes them; bounded memory. A log of a single part, or
 * of too many, stays as it is: readers do not see the difference.
 */
export const joinParts = async (objects: ObjectStore, prefix: string): Promise<void> => {
  const parts: LogPart[] = []
  for (let page = [""]; page.length > 0;) {
    page = await objects.list(partsPrefix(prefix), { after: parts.at(-1)?.key ?? "" })
    parts.push(...page.map(parsePart))
    if (parts.length > MAX_PARTS) return
  }
  if (parts.length < 2) return
  const pieces = parts.map(({ key, bytes }) => ({ key, start: 0, end: bytes }))
  const records = parts.map(({ key, bytes, indexBytes }) => ({ key, start: bytes, end: bytes + indexBytes }))
  await objects.putStream(indexKey(prefix), contentOf(objects, records))
  const large = parts.reduce((sum, { bytes }) => sum + bytes, 0) / parts.length >= JOIN_BYTES
  if (objects.join !== undefined && large) await objects.join(logKey(prefix), pieces)
  else await objects.putStream(logKey(prefix), contentOf(objects, pieces))
  notifyReaders(objects, prefix)
  await objects.deletePrefix(partsPrefix(prefix))
}

async function* contentOf(objects: ObjectStore, pieces: readonly ObjectRange[]): AsyncGenerator<Uint8Array> {
  for (const { key, start, end } of pieces) {
    if (end === start) continue
    const bytes = await objects.getRange(key, start, end)
    if (bytes?.byteLength !== end - start) throw new Error(`${key} is not all there any more`)
    yield bytes
  }
}

/** How many whole records, with how many raw bytes, make one part. */
const fit = (records: Buffer): { count: number; bytes: number } => {
  let bytes = 0
  let count = 0
  for (; (count + 1) * RECORD_BYTES <= records.length; count++) {
    const length = records.readUInt32LE(count * RECORD_BYTES + 16)
    if (count > 0 && bytes + length > PART_BYTES) break
    bytes += length
  }
  return { count, bytes }
}
