// Copies what a job appends to its two output files. The caller polls, because shared file systems do not notify about changes.

import { type FileHandle, open } from "node:fs/promises"
import { join } from "node:path"
import type { LogStream } from "../../objects/logs/log-index.ts"
import type { LogSink } from "../../objects/logs/log-sink.ts"

const READ_BYTES = 262_144

interface Followed {
  stream: LogStream
  path: string
  file: FileHandle | null
  offset: number
}

export class FileFollower {
  readonly #files: Followed[]
  readonly #sink: LogSink

  constructor(folder: string, sink: LogSink) {
    this.#files = (["stdout", "stderr"] as const).map((stream) => ({
      stream,
      path: join(folder, stream),
      file: null,
      offset: 0,
    }))
    this.#sink = sink
  }

  /** Copies what was added since the last call; resolves with true when there was something. */
  async copy(): Promise<boolean> {
    let any = false
    for (const followed of this.#files) any = (await this.#copyOne(followed)) || any
    return any
  }

  async close(): Promise<void> {
    for (const { file } of this.#files) await file?.close().catch(() => {})
  }

  async #copyOne(followed: Followed): Promise<boolean> {
    followed.file ??= await open(followed.path, "r").catch(() => null)
    if (followed.file === null) return false
    const start = followed.offset
    for (;;) {
      const { bytesRead, buffer } = await this.#read(followed.file, followed)
      if (bytesRead === 0) return followed.offset > start
      followed.offset += bytesRead
      await this.#sink.write(followed.stream, buffer.subarray(0, bytesRead))
    }
  }

  /** Opens the file again after an error: a handle of a shared file system may be stale for ever. */
  async #read(file: FileHandle, followed: Followed): Promise<{ bytesRead: number; buffer: Buffer }> {
    try {
      return await file.read({ buffer: Buffer.allocUnsafe(READ_BYTES), position: followed.offset })
    } catch (error) {
      followed.file = null
      await file.close().catch(() => {})
      throw error
    }
  }
}
