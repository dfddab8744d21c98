// The object store in a local folder. An object is a file; it appears by a rename, and file and folder are synced to disk before `put`
// returns, because the database may refer to it. Logs are the exception: their writer appends to `localPath`.

import { randomBytes } from "node:crypto"
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises"
import type { FileHandle } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { messageOf } from "../../core/values/error-message.ts"
import { ObjectStoreError } from "../errors.ts"
import { createDurableFolder, syncFolder } from "../shared/durable-file.ts"
import { checkDeletedPrefix, checkKey, checkPrefix } from "../shared/keys.ts"
import type { ObjectStore } from "../objects.ts"
import { readRange } from "../shared/read-range.ts"
import { nullIf } from "../shared/null-if.ts"
import { probe } from "../shared/probe.ts"

const TEMPORARY = ".tmp-"

export class FileObjectStore implements ObjectStore {
  readonly kind = "file"
  readonly root: string

  constructor(root: string) {
    this.root = resolve(root)
  }

  localPath(key: string): string {
    return join(this.root, checkKey(key))
  }

  async put(key: string, data: Uint8Array | string): Promise<void> {
    await this.#write(key, (file) => file.writeFile(data))
  }

  async putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }> {
    let bytes = 0
    await this.#write(key, async (file) => {
      for await (const chunk of data) {
        await writeAll(file, chunk)
        bytes += chunk.byteLength
      }
    })
    return { bytes }
  }

  async get(key: string): Promise<Uint8Array | null> {
    return nullIf(readFile(this.localPath(key)), isMissing)
  }

  getRange(key: string, start: number, end: number): Promise<Uint8Array | null> {
    return readRange(this.localPath(key), start, end - start)
  }

  async size(key: string): Promise<number | null> {
    const info = await nullIf(stat(this.localPath(key)), isMissing)
    return info?.isFile() ? info.size : null
  }

  async list(prefix: string, options: { after?: string; limit?: number } = {}): Promise<string[]> {
    const limit = options.limit ?? 1000
    const keys: string[] = []
    for await (const key of this.#walk(checkPrefix(prefix), options.after ?? "")) {
      if (keys.length >= limit) break
      keys.push(key)
    }
    return keys
  }

  /** Keeps the folders around the prefix, also empty ones: an attempt of the same run may be creating its log there. */
  async deletePrefix(prefix: string): Promise<void> {
    await rm(join(this.root, checkDeletedPrefix(prefix).slice(0, -1)), { recursive: true, force: true })
  }

  async check(): Promise<void> {
    try {
      await probe(this)
    } catch (error) {
      throw new ObjectStoreError(`in ${this.root}`, messageOf(error), { cause: error })
    }
  }

  /** Yields the keys below `prefix` and after `after`, in byte order. */
  async *#walk(prefix: string, after: string): AsyncGenerator<string> {
    const entries = await nullIf(readdir(join(this.root, prefix), { withFileTypes: true }), isMissing)
    if (entries === null) return
    // A folder is sorted by its name with the `/`, so that keys are in order: `a-b` before `a/c`.
    const names = entries
      .filter((entry) => !entry.name.startsWith(TEMPORARY))
      .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    for (const name of names) {
      const key = prefix + name
      if (!name.endsWith("/")) {
        if (isAfter(key, after)) yield key
      } else if (isAfter(key, after) || after.startsWith(key)) {
        yield* this.#walk(key, after)
      }
    }
  }

  async #write(key: string, fill: (file: FileHandle) => Promise<void>): Promise<void> {
    const path = this.localPath(key)
    const folder = dirname(path)
    const temporary = join(folder, TEMPORARY + randomBytes(8).toString("hex"))
    const file = await this.#create(folder, temporary)
    try {
      try {
        await fill(file)
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(temporary, path)
    } catch (error) {
      await rm(temporary, { force: true })
      throw error
    }
    await this.#syncFolders(folder)
  }

  /** Syncs the folders of an object: a log writer may have created some of them without a sync. */
  async #syncFolders(folder: string): Promise<void> {
    const folders: string[] = []
    for (let at = folder; folders.at(-1) !== this.root; at = dirname(at)) folders.push(at)
    await Promise.all(folders.map(syncFolder))
  }

  /** Creates a file and its folders. Retries, because a concurrent delete may remove the folders. */
  async #create(folder: string, path: string): Promise<FileHandle> {
    for (let tries = 0; ; tries++) {
      await createDurableFolder(this.root)
      await mkdir(folder, { recursive: true, mode: 0o700 })
      try {
        return await open(path, "wx", 0o600)
      } catch (error) {
        if (!isMissing(error) || tries >= 5) throw error
      }
    }
  }
}

const isAfter = (key: string, after: string): boolean => Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0

const isMissing = (error: unknown): boolean => {
  const code = error instanceof Error && "code" in error ? error.code : undefined
  return code === "ENOENT" || code === "ENOTDIR"
}

const writeAll = async (file: FileHandle, data: Uint8Array): Promise<void> => {
  for (let done = 0; done < data.byteLength;) {
    const { bytesWritten } = await file.write(data, done, data.byteLength - done)
    done += bytesWritten
  }
}
