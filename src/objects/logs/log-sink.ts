// Writes the output of a task as a log, with secrets masked, for executors. The log can be read while it is written: in a local store
// the file grows, to a remote store parts are uploaded within a second (log-upload.ts).

import { dirname, join } from "node:path"
import { mkdirSync } from "node:fs"
import { rm } from "node:fs/promises"
import { getSystemErrorName } from "node:util"
import type { LogStream } from "./log-index.ts"
import { logKey } from "./log-keys.ts"
import { LogUpload } from "./log-upload.ts"
import { type LastLine, LogWriter } from "./log-writer.ts"
import { createMask, type Mask } from "../mask.ts"
import type { ObjectStore } from "../objects.ts"
import { createOwnedFolder } from "../owned-folder.ts"

export interface LogSink {
  /** Resolves when more may be written. `at`: time of the output in epoch milliseconds; now by default. */
  write(stream: LogStream, bytes: Uint8Array | string, at?: number): Promise<void>
  /**
   * Stores the complete log; rejects when a part of it is missing. `last`: position of the last non-blank line of stdout, which may be
   * the output of the task.
   */
  close(): Promise<{ last: LastLine; size: number }>
}

export interface LogSinkOptions {
  secrets: readonly string[]
  /** Size from which the rest of the log is dropped. Default: 1 GiB. */
  maxLogBytes?: number
}

/** Opens a log. `prefix`: that of the attempt. */
export const openLog = (objects: ObjectStore, prefix: string, options: LogSinkOptions): LogSink => {
  if (objects.localPath !== undefined) return new LocalLog(objects.localPath(logKey(prefix)), options)
  return new UploadedLog(objects, prefix, options)
}

class LocalLog implements LogSink {
  readonly #writer: LogWriter
  readonly #masks: Record<LogStream, Mask | null>

  constructor(path: string, { secrets, maxLogBytes }: LogSinkOptions) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    this.#writer = new LogWriter(path, maxLogBytes)
    this.#masks = { stdout: createMask(secrets), stderr: createMask(secrets) }
  }

  write(stream: LogStream, bytes: Uint8Array | string, at?: number): Promise<void> {
    const data = typeof bytes === "string" ? Buffer.from(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#add(stream, this.#masks[stream]?.add(data) ?? data, at)
    return Promise.resolve()
  }

  close(): Promise<{ last: LastLine; size: number }> {
    for (const stream of ["stdout", "stderr"] as const) this.#add(stream, this.#masks[stream]?.end() ?? Buffer.alloc(0))
    this.#writer.close()
    const { last, size, errno } = this.#writer
    return errno === 0
      ? Promise.resolve({ last, size })
      : Promise.reject(new Error(`the log is incomplete: ${getSystemErrorName(-errno)}`))
  }

  #add(stream: LogStream, bytes: Buffer, at?: number): void {
    if (bytes.length > 0) this.#writer.add(stream === "stdout" ? 1 : 2, bytes, at)
  }
}

/** Writes to a local file first, so that a slow store neither delays the task nor uses memory. */
class UploadedLog implements LogSink {
  readonly #folder = createOwnedFolder("log")
  readonly #local: LocalLog
  readonly #upload: LogUpload

  constructor(objects: ObjectStore, prefix: string, options: LogSinkOptions) {
    const path = join(this.#folder, "log")
    this.#local = new LocalLog(path, options)
    this.#upload = new LogUpload(objects, prefix, path)
  }

  write(stream: LogStream, bytes: Uint8Array | string, at?: number): Promise<void> {
    return this.#local.write(stream, bytes, at)
  }

  async close(): Promise<{ last: LastLine; size: number }> {
    const end = this.#local.close()
    try {
      // An incomplete log is stored as well.
      await end.catch(() => {})
      await this.#upload.close()
      return await end
    } finally {
      await rm(this.#folder, { recursive: true, force: true })
    }
  }
}
