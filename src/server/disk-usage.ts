// Disk usage of a local object store. Walks its folder, so the result is cached for ten minutes.

import { opendir, stat } from "node:fs/promises"
import { join } from "node:path"
import type { Clock } from "../core/model/ports.ts"

const CACHE_MS = 600_000
/** Larger folders are not walked. */
const MAX_FILES = 100_000

export class DiskUsage {
  readonly #folder: string | null
  readonly #clock: Clock
  readonly #maxFiles: number
  #cached: { until: number; bytes: Promise<number | null> } | null = null

  /** `folder` is null for a store on another machine. */
  constructor(folder: string | null, clock: Clock, maxFiles = MAX_FILES) {
    this.#folder = folder
    this.#clock = clock
    this.#maxFiles = maxFiles
  }

  /** Returns null when the usage is not known. */
  bytes(): Promise<number | null> {
    if (this.#folder === null) return Promise.resolve(null)
    const now = this.#clock.monotonic()
    if (this.#cached === null || this.#cached.until <= now) {
      this.#cached = { until: now + CACHE_MS, bytes: sumSizes(this.#folder, this.#maxFiles) }
    }
    return this.#cached.bytes
  }
}

const sumSizes = async (folder: string, maxFiles: number): Promise<number | null> => {
  let bytes = 0
  let files = 0
  try {
    for await (const entry of await opendir(folder, { recursive: true })) {
      if (!entry.isFile()) continue
      files += 1
      if (files > maxFiles) return null
      // The file may be removed meanwhile.
      bytes += await stat(join(entry.parentPath, entry.name)).then(
        ({ size }) => size,
        () => 0,
      )
    }
  } catch {
    return files === 0 ? 0 : null
  }
  return bytes
}
