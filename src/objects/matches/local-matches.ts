// Finds the files of this machine that fit a pattern.

import type { Dirent } from "node:fs"
import { readdir, stat } from "node:fs/promises"
import { join } from "node:path"
import { fitsPart, isWildcard } from "../../core/settings/path-pattern.ts"
import type { Match } from "./matches.ts"

/** Folder whose files do not match, and a folder below it whose files do. */
export interface Exclusion {
  excluded: string
  except?: string
}

/** A missing folder has no matches; one that cannot be read rejects. */
export async function* localMatches(parts: readonly string[], exclusion: Exclusion): AsyncGenerator<Match> {
  const found = new Set<string>()
  for await (const path of walk("/", parts)) {
    if (found.has(path) || isExcluded(path, exclusion)) continue
    found.add(path)
    const info = await orMissing(stat(path))
    if (info?.isFile() !== true) continue
    const { size, mtimeMs, ctimeMs } = info
    yield { path, version: `${size} ${mtimeMs}`, changedAt: Math.max(mtimeMs, ctimeMs), complete: false }
  }
}

const isExcluded = (path: string, { excluded, except }: Exclusion): boolean =>
  path.startsWith(`${excluded}/`) && (except === undefined || !path.startsWith(`${except}/`))

/** Yields the paths below a folder that fit the parts. `**` does not follow links. */
async function* walk(folder: string, [part, ...rest]: readonly string[]): AsyncGenerator<string> {
  if (part === undefined) return
  if (!isWildcard(part)) {
    if (rest.length === 0) yield join(folder, part)
    else yield* walk(join(folder, part), rest)
    return
  }
  if (part === "**") yield* walk(folder, rest)
  for (const entry of await entriesOf(folder)) {
    const path = join(folder, entry.name)
    if (part === "**") {
      if (entry.isDirectory() && !entry.name.startsWith(".")) yield* walk(path, [part, ...rest])
    } else if (fitsPart(part, entry.name)) {
      if (rest.length === 0) yield path
      else yield* walk(path, rest)
    }
  }
}

const entriesOf = async (folder: string): Promise<Dirent[]> => (await orMissing(readdir(folder, { withFileTypes: true }))) ?? []

/** Returns null if the file or folder is missing, or is no folder. */
const orMissing = async <T>(work: Promise<T>): Promise<T | null> => {
  try {
    return await work
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "ENOENT" || code === "ENOTDIR") return null
    throw error
  }
}
