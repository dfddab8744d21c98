// Reads ranges of local files that may still be growing, and of objects.

import { open } from "node:fs/promises"
import type { ObjectRange, ObjectStore } from "../objects.ts"

/** Returns up to `length` bytes from `start`, or null if there is no file. */
export const readRange = async (path: string, start: number, length: number): Promise<Buffer | null> => {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw error
  })
  if (file === null) return null
  try {
    const left = (await file.stat()).size - start
    const buffer = Buffer.allocUnsafe(Math.max(0, Math.min(length, left)))
    let read = 0
    while (read < buffer.length) {
      const { bytesRead } = await file.read(buffer, read, buffer.length - read, start + read)
      if (bytesRead === 0) break
      read += bytesRead
    }
    return buffer.subarray(0, read)
  } finally {
    await file.close()
  }
}

/** Returns up to `length` bytes from `start`; none if there is no file. */
export const readRangeOrEmpty = async (path: string, start: number, length: number): Promise<Buffer> =>
  (length === 0 ? null : await readRange(path, start, length)) ?? Buffer.alloc(0)

/** Reads a range of an object. Throws if the object does not contain all of it. */
export const readObjectRange = async (
  objects: Pick<ObjectStore, "getRange">,
  { key, start, end }: ObjectRange,
): Promise<Uint8Array> => {
  const bytes = await objects.getRange(key, start, end)
  if (bytes?.byteLength !== end - start) throw new Error(`${key} is incomplete or was removed`)
  return bytes
}
