// Unpacked bundles on the worker's machine. A bundle is downloaded and unpacked once; unused ones are removed beyond limits.

import { randomBytes } from "node:crypto"
import { renameSync, utimesSync } from "node:fs"
import { readdir, rm, stat, utimes } from "node:fs/promises"
import { join } from "node:path"
import { type CachedFolder, type CacheLimits, removeOldDrafts, selectEvicted } from "./eviction.ts"
import { bundleFolder, BundleFolders } from "../../objects/bundles/bundles.ts"

/** A bundle has at most 16 MiB, so that its size needs no limit. */
const LIMITS: CacheLimits = { maxAgeMs: 7 * 86_400_000, maxCount: 100, maxBytes: Number.POSITIVE_INFINITY }

/** Interval at which use updates the time of a folder, which other workers of this machine read. */
const TOUCH_MS = 600_000

export class BundleCache {
  readonly #dataDir: string
  readonly #limits: CacheLimits
  readonly #users = new Map<string, number>()
  readonly #touchedAt = new Map<string, number>()
  #folders: BundleFolders | null = null

  constructor(dataDir: string, limits: CacheLimits = LIMITS) {
    this.#dataDir = dataDir
    this.#limits = limits
  }

  /** Forgets which folders exist and how to read bundles: folders were removed, or the registration has changed. */
  invalidate(): void {
    this.#folders = null
  }

  /** Protects a bundle from removal until `release`, and returns the folders of bundles. */
  use(hash: string, now: number, read: (hash: string) => Promise<Uint8Array>): BundleFolders {
    this.#users.set(hash, (this.#users.get(hash) ?? 0) + 1)
    if (now - (this.#touchedAt.get(hash) ?? 0) > TOUCH_MS) {
      this.#touchedAt.set(hash, now)
      touch(bundleFolder(this.#dataDir, hash), now)
    }
    this.#folders ??= new BundleFolders({ dataDir: this.#dataDir, read })
    return this.#folders
  }

  release(hash: string): void {
    const left = (this.#users.get(hash) ?? 1) - 1
    if (left > 0) this.#users.set(hash, left)
    else this.#users.delete(hash)
  }

  /** Removes unused bundles beyond the limits. */
  async sweep(now: number): Promise<void> {
    const parent = join(this.#dataDir, "bundles")
    await removeOldDrafts(parent, now)
    const unused: CachedFolder[] = []
    for (const name of await readdir(parent).catch(() => [])) {
      const folder = join(parent, name)
      if (this.#users.has(name)) await utimes(folder, now / 1000, now / 1000).catch(() => {})
      const found = await stat(folder).catch(() => null)
      if (found !== null && !this.#users.has(name)) unused.push({ name, usedAt: found.mtimeMs, bytes: 0 })
    }
    for (const { name } of selectEvicted(unused, now, this.#limits)) {
      // A task may have begun to use it meanwhile.
      if (this.#users.has(name)) continue
      this.invalidate()
      this.#touchedAt.delete(name)
      // Under the name of a draft at once, so that a task that begins now unpacks the bundle again instead of using what is left of it.
      const removed = join(parent, `${name}.${randomBytes(6).toString("hex")}.part`)
      if (rename(join(parent, name), removed)) await rm(removed, { recursive: true, force: true })
    }
  }
}

/** Returns false when another worker of this machine has removed the folder. */
const rename = (folder: string, to: string): boolean => {
  try {
    renameSync(folder, to)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false
    throw error
  }
}

/** Sets the time of a folder, if it exists. */
const touch = (folder: string, now: number): void => {
  try {
    utimesSync(folder, now / 1000, now / 1000)
  } catch {
    // The bundle is not unpacked yet.
  }
}
