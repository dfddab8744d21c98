// How much room the logs and outputs of a local object store take. Walks its folder, so it is asked seldom and remembers the answer.

import { opendir, stat } from "node:fs/promises"
import { join } from "node:path"
import type { Clock } from "../core/model/ports.ts"

const KEPT_MS = 600_000
/** A folder with more files is too large to walk for a figure on a page. */
const MOST_FILES = 100_000

export class DiskUsage {
  readonly #folder: string | null
  readonly #clock: Clock
  readonly #most: number
  #known: { until: number; bytes: Promise<number | null> } | null = null

  /** `folder` null: the store is elsewhere, and its size is not known. */
  constructor(folder: string | null, clock: Clock, most = MOST_FILES) {
    this.#folder = folder
    this.#clock = clock
    this.#most = most
  }

  /** null: not known. */
  bytes(): Promise<number | null> {
    if (this.#folder === null) return Promise.resolve(null)
    const now = this.#clock.now()
    if (this.#known === null || this.#known.until <= now) {
      this.#known = { until: now + KEPT_MS, bytes: walk(this.#folder, this.#most) }
    }
    return this.#known.bytes
  }
}

const walk = async (folder: string, most: number): Promise<number | null> => {
  let bytes = 0
  let files = 0
  try {
    for await (const entry of await opendir(folder, { recursive: true })) {
      if (!entry.isFile()) continue
      files += 1
      if (files > most) return null
      // A file may go while it is looked at.
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
