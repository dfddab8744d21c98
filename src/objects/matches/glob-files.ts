// Finds what fits a glob below a folder.

import { relative } from "node:path"
import { messageOf } from "../../core/values/error-message.ts"
import { expandBraces, fitsGlob, isGlob } from "../../core/values/glob.ts"
import { walk, type WalkPart } from "./walk.ts"

/** Files and folders that one search looks at. */
const MAX_ENTRIES = 200_000

/** The pattern stands for too much. */
export class InvalidGlob extends Error {}

/** Yields files and folders, by their path relative to the folder. One without wildcards need not exist. Throws InvalidGlob. */
export async function* globFiles(folder: string, glob: string, skips: (name: string) => boolean): AsyncGenerator<string> {
  const found = new Set<string>()
  try {
    for (const pattern of expandBraces(glob)) {
      const parts = pattern.split("/").filter((part) => part !== "" && part !== ".")
      if (parts.length === 0) continue
      for await (const path of walk(folder, parts.map(walkPart), { maxEntries: MAX_ENTRIES, skips, ignoreUnreadable: true })) {
        if (found.has(path)) continue
        found.add(path)
        yield relative(folder, path)
      }
    }
  } catch (error) {
    throw new InvalidGlob(messageOf(error), { cause: error })
  }
}

const walkPart = (part: string): WalkPart => {
  if (part === "**") return { anyFolders: true }
  return isGlob(part) ? { fits: fitsGlob(part) } : { name: part }
}
