// A piece of a local file that somebody may still be writing.

import { open } from "node:fs/promises"

/** Up to `length` bytes from `start`; none where there is no file. */
export const readRange = async (path: string, start: number, length: number): Promise<Buffer> => {
  if (length === 0) return Buffer.alloc(0)
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw error
  })
  if (file === null) return Buffer.alloc(0)
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
