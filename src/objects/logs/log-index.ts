// The index of an attempt's log, `log.idx`: one 24-byte little-endian record per written chunk (u64 offset in the raw log, u64 ms since
// the epoch, u32 length, u32 stream). A record is written after its bytes, so that after a crash the index may lack its last records.

import { type LogFiles, logFiles } from "./log-files.ts"
import { RECORD_BYTES } from "./log-keys.ts"
import type { ObjectStore } from "../objects.ts"

export type LogStream = "stdout" | "stderr"

export interface Chunk {
  offset: number
  at: number
  length: number
  stream: LogStream
}

const RECORDS_PER_READ = 1024

/** Returns the number of the first record whose chunk ends after `offset`. */
export const findRecord = async (files: LogFiles, offset: number): Promise<number> => {
  let low = 0
  let high = offset === 0 ? 0 : Math.floor((await files.size("index")) / RECORD_BYTES)
  while (low < high) {
    const middle = (low + high) >>> 1
    const [chunk] = await readChunks(files, middle, 1)
    if (chunk !== undefined && chunk.offset + chunk.length <= offset) low = middle + 1
    else high = middle
  }
  return low
}

export const readChunks = async (files: LogFiles, from: number, count = RECORDS_PER_READ): Promise<Chunk[]> => {
  const bytes = await files.range("index", from * RECORD_BYTES, (from + count) * RECORD_BYTES)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Array.from({ length: Math.floor(bytes.byteLength / RECORD_BYTES) }, (_, i) => ({
    offset: Number(view.getBigUint64(i * RECORD_BYTES, true)),
    at: Number(view.getBigUint64(i * RECORD_BYTES + 8, true)),
    length: view.getUint32(i * RECORD_BYTES + 16, true),
    stream: view.getUint32(i * RECORD_BYTES + 20, true) === 2 ? ("stderr" as const) : ("stdout" as const),
  }))
}

/** Returns the chunks that overlap the bytes [start, end). Merges neighbours of the same stream and time. */
export const chunksInRange = async (files: LogFiles, start: number, end: number): Promise<Chunk[]> => {
  const found: Chunk[] = []
  for (let record = await findRecord(files, start); ;) {
    const chunks = await readChunks(files, record)
    for (const chunk of chunks) {
      if (chunk.offset >= end) return found
      const last = found.at(-1)
      if (last?.stream === chunk.stream && last.at === chunk.at) last.length = chunk.offset + chunk.length - last.offset
      else found.push(chunk)
    }
    if (chunks.length === 0) return found
    record += chunks.length
  }
}

export interface ChunkBytes {
  chunk: Chunk
  bytes: Uint8Array
}

/** Yields the bytes of chunks from `position` on, with one read for many chunks. */
export async function* chunkBytes(files: LogFiles, chunks: Chunk[], position: number): AsyncGenerator<ChunkBytes> {
  let window: Uint8Array = new Uint8Array()
  let start = 0
  for (const chunk of chunks) {
    const from = Math.max(chunk.offset, position)
    const to = chunk.offset + chunk.length
    if (to <= from) continue
    if (from < start || to > start + window.byteLength) {
      start = from
      window = await files.range("log", from, Math.max(to, from + files.readBytes))
    }
    yield { chunk, bytes: window.subarray(from - start, to - start) }
  }
}

/** A stored log lacks bytes that its reader expects. */
export class IncompleteLog extends Error {}

/** Yields `length` bytes of one stream from an offset of the raw log on: a line, which chunks of the other stream may interrupt. An infinite
 * length means all that the index lists. */
export async function* streamBytes(
  objects: ObjectStore,
  prefix: string,
  range: { stream: LogStream; offset: number; length: number },
): AsyncGenerator<Uint8Array> {
  const files = logFiles(objects, prefix)
  let left = range.length
  for (let record = await findRecord(files, range.offset); left > 0;) {
    const chunks = await readChunks(files, record)
    if (chunks.length === 0) break
    record += chunks.length
    const ofStream = chunks.filter((chunk) => chunk.stream === range.stream)
    for await (const { chunk, bytes } of chunkBytes(files, ofStream, range.offset)) {
      if (left <= 0) return
      const expected = Math.min(left, chunk.offset + chunk.length - Math.max(chunk.offset, range.offset))
      if (bytes.byteLength < expected) throw new IncompleteLog(`the log ${prefix}log ends too early`)
      yield bytes.subarray(0, left)
      left -= bytes.byteLength
    }
  }
  if (left > 0 && Number.isFinite(left)) throw new IncompleteLog(`the index of the log ${prefix}log ends too early`)
}

/** Counts the leading records of an index whose chunks have at most `maxBytes` together; at least one if there is one. */
export const fitRecords = (records: Buffer, maxBytes: number): { count: number; bytes: number } => {
  let bytes = 0
  let count = 0
  for (; (count + 1) * RECORD_BYTES <= records.length; count++) {
    const length = records.readUInt32LE(count * RECORD_BYTES + 16)
    if (count > 0 && bytes + length > maxBytes) break
    bytes += length
  }
  return { count, bytes }
}
