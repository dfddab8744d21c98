// A piece of a local file that somebody may still be writing.

import { open } from "node:fs/promises"

/** Up to `length` bytes from `start`; null: there is no file. */
export const readRange = async (path: string, start: number, length: number): Promise<Buffer | null> => {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw error
  })
  if (file === null) return null
  try {
    const left = (await file.stat()).size - start
    const buffer = Buffer.allocUnsafe(Math.max(0, Math.min(length, left)))
    let have = 0
    while (have < buffer.length) {
      const { bytesRead } = await file.read(buffer, have, buffer.length - have, start + have)
      if (bytesRead === 0) break
      have += bytesRead
    }
    return buffer.subarray(0, have)
  } finally {
    await file.close()
  }
}

/** The same of a file that may not be there yet: nothing of it, then. */
export const readRangeOrEmpty = async (path: string, start: number, length: number): Promise<Buffer> =>
  (length === 0 ? null : await readRange(path, start, length)) ?? Buffer.alloc(0)
