// Stores the logs that workers send in frames. Where the object store is on this machine, a frame is written at its offset into the log;
// elsewhere it becomes a part. A frame that arrives twice, or through another server, changes nothing.

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
  /** Joins logs one after the other. */
  #joining: Promise<void> = Promise.resolve()

  constructor(objects: ObjectStore, log: Logger) {
    this.#objects = objects
    this.#log = log
  }

  /** Joins the parts of a complete log into one object. Not urgent: parts can be read as well. */
  ended(prefix: string): void {
    if (this.#objects.localPath !== undefined) return
    this.#joining = this.#joining
      .then(() => joinParts(this.#objects, prefix))
      .catch((error: unknown) =>
        this.#log.warn({ prefix, error: String(error) }, "failed to join the parts of a log; it stays in parts"),
      )
  }

  /** Returns the offset to continue from: after this frame, or the end of the log if an earlier frame is missing. */
  async append(prefix: string, frame: Frame): Promise<number> {
    if (this.#objects.localPath === undefined) return this.#putPart(prefix, frame)
    const log = this.#objects.localPath(logKey(prefix))
    await mkdir(dirname(log), { recursive: true, mode: 0o700 })
    const size = await writeAt(log, frame.offset, frame.raw)
    if (size < frame.offset) return size
    // Writes the index record after the bytes that it names.
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

/** Writes bytes at an offset and returns the previous size of the file. Writes nothing when the offset is beyond its end. */
const writeAt = async (path: string, offset: number, bytes: Buffer): Promise<number> => {
  // Mode `a` would ignore the offset; `r+` fails when the file does not exist.
  const file = await open(path, "r+").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return open(path, "wx+", 0o600).catch(() => open(path, "r+"))
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
