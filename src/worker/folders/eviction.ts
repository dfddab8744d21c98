// Chooses which unused folders to remove: all but the newest, within limits of age, number and size.

import { lstat, opendir, readdir, rm, stat } from "node:fs/promises"
import { join } from "node:path"

export interface CachedFolder {
  name: string
  usedAt: number
  bytes: number
}

export interface CacheLimits {
  maxAgeMs: number
  maxCount: number
  maxBytes: number
}

/** Folders used this recently are never removed: another worker of this machine may use them. */
export const RECENT_MS = 3_600_000

/** Returns the folders to remove. */
export const selectEvicted = (all: readonly CachedFolder[], now: number, limits: CacheLimits): CachedFolder[] => {
  let count = 0
  let bytes = 0
  return all
    .toSorted((a, b) => b.usedAt - a.usedAt)
    .filter((folder) => {
      count += 1
      bytes += folder.bytes
      const age = now - folder.usedAt
      return age > RECENT_MS && (age > limits.maxAgeMs || count > limits.maxCount || bytes > limits.maxBytes)
    })
}

/** Removes half-made folders of killed workers. */
export const removeOldDrafts = async (parent: string, now: number): Promise<void> => {
  for (const name of await readdir(parent).catch(() => [])) {
    if (!name.endsWith(".part")) continue
    const found = await stat(join(parent, name)).catch(() => null)
    if (found !== null && now - found.mtimeMs > RECENT_MS) await rm(join(parent, name), { recursive: true, force: true })
  }
}

/** Files that `folderBytes` counts at most. */
const MAX_FILES = 50_000

/** Returns the bytes of all files below a folder; infinity if there are too many files. */
export const folderBytes = async (folder: string): Promise<number> => {
  let bytes = 0
  let files = 0
  const pending = [folder]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    for await (const entry of await opendir(next)) {
      if (++files > MAX_FILES) return Number.POSITIVE_INFINITY
      const path = join(next, entry.name)
      if (entry.isDirectory()) pending.push(path)
      else bytes += (await lstat(path)).size
    }
  }
  return bytes
}
