// Which of the folders that nobody uses are kept: the newest, as far as bounds of age, number and size let them.

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

/** Another worker of this machine may use what was used so lately: it stays, whatever the bounds. */
export const RECENT_MS = 3_600_000

/** Those that go. */
export const selectEvicted = (
  all: readonly CachedFolder[],
  now: number,
  { maxAgeMs, maxCount, maxBytes }: CacheLimits,
): CachedFolder[] => {
  let count = 0
  let bytes = 0
  return all
    .toSorted((a, b) => b.usedAt - a.usedAt)
    .filter((one) => {
      count += 1
      bytes += one.bytes
      const age = now - one.usedAt
      return age > RECENT_MS && (age > maxAgeMs || count > maxCount || bytes > maxBytes)
    })
}

/** Removes what a killed worker was unpacking. */
export const removeOldDrafts = async (parent: string, now: number): Promise<void> => {
  for (const name of await readdir(parent).catch(() => [])) {
    if (!name.endsWith(".part")) continue
    const found = await stat(join(parent, name)).catch(() => null)
    if (found !== null && now - found.mtimeMs > RECENT_MS) await rm(join(parent, name), { recursive: true, force: true })
  }
}

/** More files than this are not looked at. */
const MOST_FILES = 50_000

/** Bytes of all files below a folder; infinite when there are too many of them. */
export const folderBytes = async (folder: string): Promise<number> => {
  let bytes = 0
  let files = 0
  const open = [folder]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for await (const entry of await opendir(next)) {
      if (++files > MOST_FILES) return Number.POSITIVE_INFINITY
      const path = join(next, entry.name)
      if (entry.isDirectory()) open.push(path)
      else bytes += (await lstat(path)).size
    }
  }
  return bytes
}
