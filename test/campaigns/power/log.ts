// The log of what a server wrote to disk (record.c) and what clients were told, in one order.

import { execFileSync } from "node:child_process"
import { join } from "node:path"

export const OP = {
  open: 1,
  close: 2,
  write: 3,
  truncate: 4,
  sync: 5,
  rename: 6,
  unlink: 7,
  mkdir: 8,
  link: 9,
  rmdir: 10,
  /** A reply that a client received, as JSON. */
  told: 64,
} as const

export interface LogRecord {
  op: number
  pid: number
  fd: number
  /** Offset, size or flags. */
  number: number
  data: Buffer
}

const HEADER_BYTES = 21

/** Yields the records of a log. The last one may be incomplete. */
export function* parseLog(log: Buffer): Generator<LogRecord> {
  for (let at = 0; at + HEADER_BYTES <= log.length;) {
    const end = at + HEADER_BYTES + log.readUInt32LE(at + 17)
    if (end > log.length) return
    yield {
      op: log[at]!,
      pid: log.readInt32LE(at + 1),
      fd: log.readInt32LE(at + 5),
      number: Number(log.readBigInt64LE(at + 9)),
      data: log.subarray(at + HEADER_BYTES, end),
    }
    at = end
  }
}

export const encodeTold = (value: unknown): Buffer => {
  const data = Buffer.from(JSON.stringify(value))
  const header = Buffer.alloc(HEADER_BYTES)
  header[0] = OP.told
  header.writeUInt32LE(data.length, 17)
  return Buffer.concat([header, data])
}

/** Compiles the recorder into a folder and returns its path. */
export const buildRecorder = (folder: string): string => {
  const library = join(folder, "record.so")
  execFileSync("cc", ["-shared", "-fPIC", "-O2", "-o", library, join(import.meta.dirname, "record.c"), "-ldl", "-lpthread"])
  return library
}
