// Unpacked bundles on the worker's machine, fetched and unpacked once. Those that no attempt uses are kept as long as there is room.

import { readdir, rm, stat, utimes } from "node:fs/promises"
import { join } from "node:path"
import { selectEvicted, type CacheLimits, type CachedFolder, removeOldDrafts } from "./eviction.ts"
import { bundleFolder, BundleFolders } from "../../objects/bundles.ts"

/** A bundle has at most 16 MiB. */
const BOUNDS: CacheLimits = { maxAgeMs: 7 * 86_400_000, maxCount: 100, maxBytes: Number.POSITIVE_INFINITY }

/** Others see what was used lately by the time of its folder, which may lag by this. */
const TOUCH_MS = 600_000

export class BundleCache {
  readonly #dataDir: string
  readonly #bounds: CacheLimits
  readonly #users = new Map<string, number>()
  readonly #touchedAt = new Map<string, number>()
  #folders: BundleFolders | null = null

  constructor(dataDir: string, bounds: CacheLimits = BOUNDS) {
    this.#dataDir = dataDir
    this.#bounds = bounds
  }

  /** The folders as they are made from now on: what was remembered of them may not hold any more. */
  forget(): void {
    this.#folders = null
  }

  /** Unpacked, or on its way; nothing is removed of it before it is released. */
  use(hash: string, now: number, read: (hash: string) => Promise<Uint8Array>): BundleFolders {
    this.#users.set(hash, (this.#users.get(hash) ?? 0) + 1)
    if (now - (this.#touchedAt.get(hash) ?? 0) > TOUCH_MS) {
      this.#touchedAt.set(hash, now)
      void utimes(bundleFolder(this.#dataDir, hash), now / 1000, now / 1000).catch(() => {})
    }
    this.#folders ??= new BundleFolders({ dataDir: this.#dataDir, read })
    return this.#folders
  }

  release(hash: string): void {
    const left = (this.#users.get(hash) ?? 1) - 1
    if (left > 0) this.#users.set(hash, left)
    else this.#users.delete(hash)
  }

  async sweep(now: number): Promise<void> {
    const parent = join(this.#dataDir, "bundles")
    await removeOldDrafts(parent, now)
    const idle: CachedFolder[] = []
    for (const name of await readdir(parent).catch(() => [])) {
      const folder = join(parent, name)
      if (this.#users.has(name)) await utimes(folder, now / 1000, now / 1000).catch(() => {})
      const found = await stat(folder).catch(() => null)
      if (found !== null && !this.#users.has(name)) idle.push({ name, usedAt: found.mtimeMs, bytes: 0 })
    }
    for (const { name } of selectEvicted(idle, now, this.#bounds)) {
      // In use by now.
      if (this.#users.has(name)) continue
      this.forget()
      this.#touchedAt.delete(name)
      await rm(join(parent, name), { recursive: true, force: true })
    }
  }
}
