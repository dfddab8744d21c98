// Finds the paths below a folder that fit a pattern. Reads each folder once, however many `**` the pattern has, and stops after a number of
// entries: users write patterns, and tasks create the folders.

import { opendir } from "node:fs/promises"
import { join } from "node:path"

/** A part of a pattern: a name, any number of folders (`**`; at the end also any file), or names that fit. */
export type WalkPart = { name: string } | { anyFolders: true } | { fits(name: string): boolean }

export interface WalkLimits {
  maxEntries: number
  /** Aborts the search. */
  signal?: AbortSignal | undefined
  /** Returns whether a file or folder is left out. */
  skips?(name: string): boolean
  /** A folder that cannot be read has no entries, like a missing one. */
  ignoreUnreadable?: boolean
}

/** The folders have more entries than a search may look at. */
export class TooManyEntries extends Error {}

/** A folder to look into, and the parts that its entries may fit. */
interface PendingFolder {
  folder: string
  positions: ReadonlySet<number>
}

/** An entry of a folder. `isFound`: it fits the whole pattern. `positions`: parts that its own entries may fit. */
interface Step {
  isFound: boolean
  positions: Set<number>
}

/**
 * Yields each path once. A path whose last part is a name need not exist. `**` neither follows links nor stands for names that begin with a
 * dot. A missing folder has no entries; one that cannot be read rejects, unless `ignoreUnreadable` is set.
 */
export async function* walk(root: string, parts: readonly WalkPart[], limits: WalkLimits): AsyncGenerator<string> {
  const { maxEntries, signal, skips = () => false, ignoreUnreadable = false } = limits
  const missing = ignoreUnreadable ? [...MISSING, "EACCES", "EPERM"] : MISSING
  let seen = 0
  const pending: PendingFolder[] = [{ folder: root, positions: new Set([0]) }]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { folder } = next
    const positions = withNextParts(parts, next.positions)
    for await (const { name, isFolder } of entriesOf(folder, namesAt(parts, positions), missing)) {
      signal?.throwIfAborted()
      if (++seen > maxEntries)
        throw new TooManyEntries(`the search looked at more than ${maxEntries} files and folders; name more folders`)
      if (skips(name)) continue
      const step = stepOf(parts, positions, name, isFolder)
      if (step.isFound) yield join(folder, name)
      if (step.positions.size > 0) pending.push({ folder: join(folder, name), positions: step.positions })
    }
  }
}

/** Adds the positions after `**`, which also stands for no folder: the part after it may fit as well. */
const withNextParts = (parts: readonly WalkPart[], positions: ReadonlySet<number>): Set<number> => {
  const all = new Set(positions)
  for (const position of all) if ("anyFolders" in parts[position]! && position + 1 < parts.length) all.add(position + 1)
  return all
}

/** Returns the names that the parts stand for; null if one of them stands for others. */
const namesAt = (parts: readonly WalkPart[], positions: ReadonlySet<number>): Set<string> | null => {
  const names = new Set<string>()
  for (const position of positions) {
    const part = parts[position]!
    if (!("name" in part)) return null
    names.add(part.name)
  }
  return names
}

const stepOf = (parts: readonly WalkPart[], positions: ReadonlySet<number>, name: string, isFolder: boolean | null): Step => {
  const step: Step = { isFound: false, positions: new Set() }
  for (const position of positions) {
    const part = parts[position]!
    const isLast = position + 1 === parts.length
    if ("anyFolders" in part) {
      if (name.startsWith(".")) continue
      if (isLast) step.isFound = true
      if (isFolder === true) step.positions.add(position)
    } else if ("name" in part ? part.name === name : part.fits(name)) {
      if (isLast) step.isFound = true
      else if (isFolder !== false) step.positions.add(position + 1)
    }
  }
  return step
}

/**
 * Yields the entries of a folder. `names`: yields these without reading the folder. `missing`: errors of folders without entries.
 * `isFolder` is null if only a link or the system knows.
 */
async function* entriesOf(
  folder: string,
  names: ReadonlySet<string> | null,
  missing: readonly string[],
): AsyncGenerator<{ name: string; isFolder: boolean | null }> {
  if (names !== null) {
    for (const name of names) yield { name, isFolder: null }
    return
  }
  const opened = await opendir(folder, { bufferSize: BUFFERED_ENTRIES }).catch((error: NodeJS.ErrnoException) => {
    if (missing.includes(error.code ?? "")) return null
    throw error
  })
  if (opened === null) return
  for await (const entry of opened) {
    yield { name: entry.name, isFolder: entry.isDirectory() ? true : entry.isFile() ? false : null }
  }
}

const BUFFERED_ENTRIES = 256

/** A missing folder, a file in its place, and links that lead to each other. */
const MISSING = ["ENOENT", "ENOTDIR", "ELOOP"]
