// Logs that workers send, piece by piece. A piece has its place: where the store lies on this machine it is written there, elsewhere
// it becomes a part. So a piece that comes twice, or through another server, changes nothing.

import { mkdir, open } from "node:fs/promises"
import { dirname } from "node:path"
import type { Logger } from "../ports.ts"
import { indexKey, logKey, newPart } from "../../objects/logs/log-keys.ts"
import { joinParts } from "../../objects/logs/log-upload.ts"
import { notifyReaders } from "../../objects/logs/log-watcher.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type Frame, RECORD_BYTES } from "../../protocol/wire/log-frames.ts"

export class WorkerLogs {
  readonly #objects: ObjectStore
  readonly #log: Logger
  /** Logs to join, one after the other. */
  #joining: Promise<void> = Promise.resolve()

  constructor(objects: ObjectStore, log: Logger) {
    this.#objects = objects
    this.#log = log
  }

  /** Nothing more comes: its parts become one object, at leisure, as they are read just as well. */
  ended(prefix: string): void {
    if (this.#objects.localPath !== undefined) return
    this.#joining = this.#joining
      .then(() => joinParts(this.#objects, prefix))
      .catch((error: unknown) => this.#log.warn({ prefix, error: String(error) }, "a log stays in parts"))
  }

  /** Gives the byte to go on from: after this piece, or where one before it is missing. */
  async append(prefix: string, frame: Frame): Promise<number> {
    if (this.#objects.localPath === undefined) return this.#putPart(prefix, frame)
    const log = this.#objects.localPath(logKey(prefix))
    await mkdir(dirname(log), { recursive: true })
    const size = await writeAt(log, frame.offset, frame.raw)
    if (size < frame.offset) return size
    // The record follows its bytes, so that readers find what it names.
    await writeAt(this.#objects.localPath(indexKey(prefix)), frame.record * RECORD_BYTES, frame.index)
    return frame.offset + frame.raw.length
  }

  async #putPart(prefix: string, { number, records, raw, index, offset }: Frame): Promise<number> {
    const part = newPart(prefix, number, raw.length, records)
    await this.#objects.put(part.key, Buffer.concat([raw, index]))
    notifyReaders(this.#objects, prefix)
    return offset + raw.length
  }
}

/** Gives the size that the file had; writes nothing beyond its end. */
const writeAt = async (path: string, offset: number, bytes: Buffer): Promise<number> => {
  // Not `a`: that would ignore the place. Not `r+`: it may not be there yet.
  const file = await open(path, "r+").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return open(path, "wx+").catch(() => open(path, "r+"))
    throw error
  })
  try {
    const { size } = await file.stat()
    if (size < offset) return size
    for (let done = 0; done < bytes.length;) {
      done += (await file.write(bytes, done, bytes.length - done, offset + done)).bytesWritten
    }
    return size
  } finally {
    await file.close()
  }
}
