// Finds the files of this machine that fit a pattern.

import { realpath, stat } from "node:fs/promises"
import { fitsPart, isWildcard } from "../../core/settings/path-pattern.ts"
import type { Match } from "./matches.ts"
import { walk, type WalkPart } from "./walk.ts"

/** Files and folders that one search looks at. */
const MAX_ENTRIES = 1_000_000

export interface LocalMatchOptions {
  /** Real path of a folder whose files do not match, also through links. */
  excluded: string
  /** Real path of a folder below it whose files do. */
  except?: string
  signal?: AbortSignal
}

/** Yields the files that match. A missing folder has no matches; one that cannot be read rejects. */
export async function* localMatches(parts: readonly string[], options: LocalMatchOptions): AsyncGenerator<Match> {
  for await (const path of walk("/", parts.map(walkPart), { maxEntries: MAX_ENTRIES, signal: options.signal })) {
    const info = await stat(path).catch(ignoreMissing)
    if (info?.isFile() !== true || (await isExcluded(path, options))) continue
    const { size, mtimeMs, ctimeMs } = info
    yield { path, version: `${size} ${mtimeMs}`, changedAt: Math.max(mtimeMs, ctimeMs), complete: false }
  }
}

const walkPart = (part: string): WalkPart => {
  if (part === "**") return { anyFolders: true }
  return isWildcard(part) ? { fits: (name) => fitsPart(part, name) } : { name: part }
}

const isExcluded = async (path: string, { excluded, except }: LocalMatchOptions): Promise<boolean> => {
  const real = await realpath(path)
  return isInside(real, excluded) && (except === undefined || !isInside(real, except))
}

const isInside = (path: string, folder: string): boolean => `${path}/`.startsWith(`${folder}/`)

const ignoreMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return null
  throw error
}
