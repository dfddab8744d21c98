// Opens files that a task has written. The task can put anything in their place, so that links are not followed and pipes never block.

import { constants } from "node:fs"
import { type FileHandle, open, readlink, realpath } from "node:fs/promises"

const READ_BYTES = 262_144

export interface OpenedFile {
  file: FileHandle
  size: number
}

/** Returns null when there is no file. Throws when it is a link or no regular file. */
export const openRegularFile = async (path: string): Promise<OpenedFile | null> => {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw error
  })
  if (file === null) return null
  const stat = await file.stat()
  if (stat.isFile()) return { file, size: stat.size }
  await file.close()
  throw Object.assign(new Error("it is not a regular file"), { code: "EINVAL" })
}

/** Returns the real path of an open file: of its descriptor where the system tells it, because the folder may change meanwhile. */
export const openedPath = ({ file }: Pick<OpenedFile, "file">, path: string): Promise<string> =>
  process.platform === "linux" ? readlink(`/proc/self/fd/${file.fd}`) : realpath(path)

export async function* fileBytes(file: FileHandle): AsyncGenerator<Uint8Array> {
  for (;;) {
    const { bytesRead, buffer } = await file.read({ buffer: Buffer.allocUnsafe(READ_BYTES) })
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
  }
}
